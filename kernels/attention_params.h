// The one description of an attention problem that every implementation takes.
#pragma once

#include <cstdint>

#include "kernels/tensor_view.h"

namespace attnd {

// out = softmax(scores) v, with scores built in this order for query row i and key j of one
// sequence and head:
//   s = softmax_scale * q_i . k_j
//   s = softcap * tanh(s / softcap)                        if softcap > 0
//   s = s + bias[i, j]                                     if bias
//   s = s - alibi_slope * |i + seqlen_k - seqlen_q - j|    if alibi_slopes (that sequence's own
//   lengths) s = -inf unless key j is within the sequence's length, inside the causal / window
//   band, and mask[i, j] != 0
// A sink joins the softmax denominator as one more score that has no value, and is included in lse.
// A row that may attend to nothing gives out = 0 and lse = -inf (lse = sink when there is one).
//
// Plain data: copyable to a device. All pointers lie in the memory of the device that computes;
// none is owned. Bytes beyond a sequence's length are never read. `out` may not overlap any input.
struct AttentionParams {
  std::int64_t batch_size = 0;
  std::int64_t seqlen_q =
      0;  // the longest query sequence of the batch (an upper bound where lengths vary)
  std::int64_t seqlen_k =
      0;  // the longest key sequence of the batch (an upper bound where lengths vary)
  std::int64_t num_heads = 0;
  std::int64_t num_kv_heads =
      0;  // divides num_heads; query head h reads key/value head h / (num_heads / num_kv_heads)
  std::int64_t head_dim = 0;    // width of q and k
  std::int64_t head_dim_v = 0;  // width of v and out

  TensorView
      q;  // [batch_size, seqlen_q, num_heads, head_dim] or packed [total_q, num_heads, head_dim]
  TensorView k;  // [batch_size, seqlen_k, num_kv_heads, head_dim] or packed [total_k, ...]
  TensorView
      v;  // [batch_size, seqlen_k, num_kv_heads, head_dim_v] or packed; same dtype as q and k
  MutableTensorView
      out;  // [batch_size, seqlen_q, num_heads, head_dim_v] or packed; dtype of q, or float32

  // Optional outputs; nullptr when not wanted.
  float* lse =
      nullptr;  // [batch_size, num_heads, seqlen_q], or packed [num_heads, total_q]; natural log
  std::int64_t lse_batch_stride = 0;  // 0 when packed
  std::int64_t lse_head_stride = 0;
  float* probs = nullptr;  // contiguous [batch_size, num_heads, seqlen_q, seqlen_k]; 0 where a row
                           // does not attend

  // Packed sequences: prefix sums, [batch_size + 1], first entry 0, never falling. nullptr: not
  // packed.
  const std::int32_t* cu_seqlens_q = nullptr;
  const std::int32_t* cu_seqlens_k = nullptr;
  // How much of each sequence is in use, [batch_size], at most the room it has. nullptr: all of it.
  // Rows of `out` past lengths_q but inside the room are set to 0, their lse to -inf.
  const std::int32_t* lengths_q = nullptr;
  const std::int32_t* lengths_k = nullptr;

  float softmax_scale = 1.0f;
  float softcap = 0.0f;  // 0: off
  bool causal =
      false;  // key j is seen by row i if j <= i + seqlen_k - seqlen_q (bottom-right aligned)
  std::int64_t window_left =
      -1;  // keys to the left of the row's own position that it sees, itself not counted; -1: all
  std::int64_t window_right = -1;  // the same to the right; causal makes it 0

  MaskView mask;  // [1|batch_size, 1|num_heads, 1|seqlen_q, seqlen_k]; non-zero: may attend
  BiasView bias;  // same shapes; float32 or the dtype of q
  const float* alibi_slopes =
      nullptr;  // [num_heads], or [batch_size, num_heads] with alibi_batch_stride == num_heads
  std::int64_t alibi_batch_stride = 0;
  const float* sinks = nullptr;  // [num_heads], in the units of a finished score
};

}  // namespace attnd
