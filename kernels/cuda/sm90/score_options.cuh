// The optional steps of AttentionParams between the score product and the softmax.
#pragma once

#include "kernels/attention_params.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/softcap.cuh"
#include "kernels/online_softmax.h"
#include "kernels/sequence_bounds.h"

namespace attnd::cuda::sm90 {

// The optional steps for one tile: raw products in, finished scores out.
class ScoreOptions {
 public:
  __device__ __forceinline__ ScoreOptions(const AttentionParams& params, const SequenceBounds& s,
                                          std::int64_t batch, std::int64_t head, std::int64_t row)
      : p_(params),
        rows_left_(s.seqlen_q - row),
        seqlen_k_(s.seqlen_k),
        bias_offset_(ScoreOffset(params.bias, batch, head, row)),
        mask_offset_(ScoreOffset(params.mask, batch, head, row)),
        slope_(params.alibi_slopes ? params.alibi_slopes[batch * params.alibi_batch_stride + head]
                                   : 0.0f),
        position_(row + s.seqlen_k - s.seqlen_q) {}

  template <int kCount>
  __device__ __forceinline__ void Apply(int first_key, float (&scores)[kCount]) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) scores[i] *= p_.softmax_scale;
    if (p_.softcap > 0.0f) ApplySoftcap(scores);
    if (p_.bias.data != nullptr)
      ForEachStored(p_.bias.row_stride, bias_offset_, first_key, scores,
                    [this](std::int64_t at, float score) {
                      return score + LoadAsFloat(p_.bias.data, p_.bias.dtype, at);
                    });
    if (p_.alibi_slopes != nullptr) ApplyAlibi(first_key, scores);
    if (p_.mask.data != nullptr)
      ForEachStored(p_.mask.row_stride, mask_offset_, first_key, scores,
                    [this](std::int64_t at, float score) {
                      return p_.mask.data[at] != 0 ? score : NegativeInfinity();
                    });
  }

 private:
  template <int kCount>
  __device__ __forceinline__ void ApplySoftcap(float (&scores)[kCount]) const {
    const Softcap softcap(p_.softcap);
#pragma unroll
    for (int i = 0; i < kCount; ++i) scores[i] = softcap(scores[i]);
  }

  template <int kCount>
  __device__ __forceinline__ void ApplyAlibi(int first_key, float (&scores)[kCount]) const {
    const int offset = static_cast<int>(position_ - first_key);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int distance = offset + ((i >> 1) & 1) * 8 - (i / 4 * 8 + i % 2);
      scores[i] -= slope_ * static_cast<float>(abs(distance));
    }
  }

  // Replaces scores that have an element of a stored [row, key] array by change(element offset,
  // score).
  template <int kCount, typename Change>
  __device__ __forceinline__ void ForEachStored(std::int64_t row_stride, std::int64_t offset,
                                                int first_key, float (&scores)[kCount],
                                                Change change) const {
    const int keys_left = static_cast<int>(seqlen_k_ - first_key);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int r = (i >> 1) & 1;
      const int column = i / 4 * 8 + i % 2;
      if (8 * r < rows_left_ && column < keys_left) {
        scores[i] = change(offset + 8 * r * row_stride + first_key + column, scores[i]);
      }
    }
  }

  const AttentionParams& p_;
  std::int64_t rows_left_;  // from this thread's first row on; bias and mask end there
  std::int64_t seqlen_k_;
  std::int64_t bias_offset_;  // elements, at (batch, head, this thread's first row, 0)
  std::int64_t mask_offset_;
  float slope_;            // ALiBi slope_ of the head, 0 for none
  std::int64_t position_;  // of the first row among the keys
};

}  // namespace attnd::cuda::sm90
