// Non-owning tensor views: a pointer, its dtype, its shape and its strides.
#pragma once

#include <cstdint>

#include "kernels/data_type.h"

namespace attnd {

// A [batch, seqlen, heads, dim] tensor. Strides count elements and are 64-bit; `dim` has stride 1.
// BSHD and BHSD differ in strides only. A packed variable-length tensor [total, heads, dim] has
// batch == 1, seqlen == total and batch_stride == 0; cumulative lengths in AttentionParams say
// where each sequence begins.
template <typename Pointer>
struct BasicTensorView {
  Pointer data = nullptr;
  DataType dtype = DataType::kFloat32;
  std::int64_t batch = 0;
  std::int64_t seqlen = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
  std::int64_t batch_stride = 0;
  std::int64_t seq_stride = 0;
  std::int64_t head_stride = 0;
};
using TensorView = BasicTensorView<const void*>;
using MutableTensorView = BasicTensorView<void*>;

// A [batch, heads, rows, cols] array that is added to, or selects from, the score matrix. `cols`
// has stride 1. A dimension of size 1 is broadcast and has stride 0. `rows` and `cols` index a
// sequence's own query rows and keys. Absent when data == nullptr and cols == 0.
template <typename Pointer>
struct BasicScoreView {
  Pointer data = nullptr;
  DataType dtype = DataType::kFloat32;  // not used for boolean masks
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t batch_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t row_stride = 0;
};
using BiasView = BasicScoreView<const void*>;
using MaskView = BasicScoreView<const std::uint8_t*>;

}  // namespace attnd
