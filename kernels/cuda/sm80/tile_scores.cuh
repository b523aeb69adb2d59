// From products q k^T to finished scores, for one warp's tile in registers: the options of
// AttentionParams and the mask.
#pragma once

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/sm80/tile_products.cuh"
#include "kernels/cuda/softcap.cuh"
#include "kernels/cuda/tile_work.cuh"
#include "kernels/online_softmax.h"
#include "kernels/sequence_bounds.h"

namespace attnd::cuda::sm80 {

// Where a lane's share of a score tile lies: the first of its rows and keys within the sequence.
// Its other rows follow at distances of 8, its other keys as Accumulators says.
struct TilePosition {
  int row = 0;
  int key = 0;
};

// Calls apply(score&, row, key) for each of a lane's scores.
template <int kFragmentsM, int kFragmentsN, typename Apply>
__device__ __forceinline__ void ForEachScore(Accumulators<kFragmentsM, kFragmentsN>& scores,
                                             const TilePosition& position, Apply apply) {
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
    for (int j = 0; j < kFragmentsN; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        apply(scores.values[i][j][e], position.row + 16 * i + 8 * (e / 2),
              position.key + 8 * j + e % 2);
}

// Sets to -inf what the length, causal and window rule hides. A selection, not an addition: what a
// hidden key holds, NaN included, is gone.
template <int kFragmentsM, int kFragmentsN>
__device__ __forceinline__ void HideInvisible(Accumulators<kFragmentsM, kFragmentsN>& scores,
                                              const AttentionParams& p, const TileWork& work,
                                              const TilePosition& position) {
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const KeyRange keys = VisibleKeysOf(p, work.bounds, position.row + 16 * i + 8 * h);
      const int begin = static_cast<int>(keys.begin) - position.key;
      const int end = static_cast<int>(keys.end) - position.key;
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int key = 8 * j + e;
          if (key < begin || key >= end) scores.values[i][j][2 * h + e] = NegativeInfinity();
        }
      }
    }
  }
}

// True if (row, key) lies within the sequence, so that bias and mask may be read there.
__device__ __forceinline__ bool InSequence(const SequenceBounds& s, int row, int key) {
  return row < s.seqlen_q && key < s.seqlen_k;
}

// Applies scale, softcap, bias and ALiBi, in this order, to products.
template <int kFragmentsM, int kFragmentsN>
__device__ __forceinline__ void FinishScores(Accumulators<kFragmentsM, kFragmentsN>& scores,
                                             const AttentionParams& p, const TileWork& work,
                                             const TilePosition& position) {
  ForEachScore(scores, position, [&](float& score, int, int) { score *= p.softmax_scale; });
  if (p.softcap > 0.0f) {
    const Softcap softcap(p.softcap);
    ForEachScore(scores, position, [&](float& score, int, int) { score = softcap(score); });
  }
  if (p.bias.data != nullptr) {
    const std::int64_t base = ScoreOffset(p.bias, work.b, work.head, 0);
    ForEachScore(scores, position, [&](float& score, int row, int key) {
      if (InSequence(work.bounds, row, key))
        score += LoadAsFloat(p.bias.data, p.bias.dtype, base + row * p.bias.row_stride + key);
    });
  }
  if (p.alibi_slopes != nullptr) {
    const float slope = p.alibi_slopes[work.b * p.alibi_batch_stride + work.head];
    const int shift = static_cast<int>(work.bounds.seqlen_k - work.bounds.seqlen_q);
    ForEachScore(scores, position, [&](float& score, int row, int key) {
      score -= slope * static_cast<float>(abs(row + shift - key));
    });
  }
}

// Sets to -inf what the boolean mask forbids.
template <int kFragmentsM, int kFragmentsN>
__device__ __forceinline__ void ApplyMask(Accumulators<kFragmentsM, kFragmentsN>& scores,
                                          const AttentionParams& p, const TileWork& work,
                                          const TilePosition& position) {
  const std::int64_t base = ScoreOffset(p.mask, work.b, work.head, 0);
  ForEachScore(scores, position, [&](float& score, int row, int key) {
    if (InSequence(work.bounds, row, key) && p.mask.data[base + row * p.mask.row_stride + key] == 0)
      score = NegativeInfinity();
  });
}

}  // namespace attnd::cuda::sm80
