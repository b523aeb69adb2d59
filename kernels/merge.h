// Combining partial attention results by their log-sum-exp.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/data_type.h"
#include "kernels/kernel_registry.h"

namespace attnd {

// The widest rows that can be merged.
inline constexpr std::int64_t kMaxMergeDim = 65536;

// Merges `num_parts` partial results over disjoint sets of keys into one. Part p is the normalised
// output out_p and lse_p = ln sum exp(score). With m = max lse_p and w_p = exp(lse_p - m):
//   out = sum(w_p out_p) / sum(w_p),  lse = m + ln sum(w_p),
// computed in float32 in part order 0, 1, 2, ... . The empty state is (0, -inf): merging it changes
// nothing, bit for bit, and merging only empty states gives the empty state. A part of weight 0 is
// never multiplied, so that its out may hold anything.
struct MergeParams {
  std::int64_t num_parts = 0;
  std::int64_t rows =
      0;  // batch * seqlen * heads: parts and results have the same, contiguous layout
  std::int64_t dim = 0;              // head_dim_v, 1 to kMaxMergeDim
  const float* out_parts = nullptr;  // [num_parts, rows, dim]
  const float* lse_parts = nullptr;  // [num_parts, rows]
  void* out = nullptr;               // [rows, dim]
  DataType out_dtype = DataType::kFloat32;
  float* lse = nullptr;  // [rows] or nullptr
};

absl::Status ValidateMerge(const MergeParams& p);

// Computes on the backend of context.device; pointers lie in that device's memory. CUDA: enqueues
// on context.stream.
absl::Status RunMerge(const MergeParams& p, const ExecutionContext& context);

}  // namespace attnd
