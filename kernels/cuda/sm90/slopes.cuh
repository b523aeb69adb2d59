// ALiBi alone: what it takes off a block of scores.
#pragma once

#include <limits>

#include "kernels/cuda/sm90/kernel_args.h"
#include "kernels/cuda/sm90/log2_units.h"
#include "kernels/cuda/sm90/score_options.cuh"
#include "kernels/cuda/sm90/score_unit.cuh"
#include "kernels/cuda/sm90/tile_work.cuh"

namespace attnd::cuda::sm90 {

// A score is product - slope / softmax_scale * |position - key|, in units of products. Where all
// keys of a block lie on one side of a row, that is
//   (product + step * column) + shift
// with a column that counts from the thread's first key and is known to the compiler, and a shift
// that is the row's own: one multiply-add a score, and the shift goes into what the exponents
// subtract. Where rows lie among the keys each score takes its own distance, and the shift is 0.
//
// A slope is steep where steps would round products away, or where scores grow so large that the
// rounding of RawUnit's references matters. Scores are then in units of log2, each takes its own
// distance, and exponents are their exact differences.
template <typename Traits>
class Slope {
 public:
  static constexpr int kCount = Traits::kBlockN / 2;  // scores of a thread

  Slope() = default;
  __device__ __forceinline__ Slope(const KernelArgs& args, const TileWork& work)
      : unit_(args), first_position_(work.seqlen_k - work.live_rows) {
    const float slope = args.p.alibi_slopes[work.batch * args.p.alibi_batch_stride + work.head];
    const float farthest = static_cast<float>(work.seqlen_k + Traits::kBlockM) +
                           fabsf(static_cast<float>(first_position_));
    a_key_ = slope / unit_.scale;
    steep_ = !(fabsf(a_key_) < kSteep && fabsf(a_key_) * unit_.scale_log2 * farthest < kLargest);
    if (!steep_) return;
    of_product_ = unit_.scale_log2;
    a_key_ = slope * kLog2E;
    // Infinite only if the slope is: times a distance of 0 that is NaN.
    if (fabsf(slope) <= kMost) a_key_ = fminf(fmaxf(a_key_, -kMost), kMost);
    unit_ = RawUnit<0>(kLn2, 1.0f);
  }

  // Whether Apply takes the short way. The same for a whole warpgroup: `row` is its first in the
  // tile.
  __device__ __forceinline__ bool OnOneSide(int row, int block) const {
    const int first =
        first_position_ + row - block * Traits::kBlockN;  // from the block's first key
    const bool left = first >= Traits::kBlockN - 1;
    const bool right = first + 63 <= 0;
    return (left || right) && !steep_;
  }

  // Whether distances raise no score over those of the block on the right, where all keys are on
  // one side.
  __device__ __forceinline__ bool Falls(int row, int block) const {
    const bool keys_on_left = first_position_ + row >= block * Traits::kBlockN;
    return keys_on_left ? a_key_ >= 0.0f : a_key_ <= 0.0f;
  }

  // Replaces a thread's products of rows `row` and row + 8 of the tile, from key `first_key` on;
  // sets the rows' shifts.
  template <bool kOneSide>
  __device__ __forceinline__ void Apply(int row, int first_key, float (&scores)[kCount],
                                        float (&shifts)[2]) const {
    const float distances[2] = {static_cast<float>(first_position_ + row - first_key),
                                static_cast<float>(first_position_ + row + 8 - first_key)};
    if constexpr (kOneSide) {
      const float step = distances[0] > 0.0f ? a_key_ : -a_key_;
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        scores[i] = __fmaf_rn(step, ScorePlace::Column(i), scores[i]);
#pragma unroll
      for (int r = 0; r < 2; ++r) shifts[r] = __fmul_rn(-step, distances[r]);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float distance = distances[ScorePlace::InSecondRow(i)] - ScorePlace::Column(i);
        scores[i] = __fmaf_rn(-a_key_, fabsf(distance), __fmul_rn(scores[i], of_product_));
      }
      shifts[0] = shifts[1] = 0.0f;
    }
  }

  // The unit of the tile's scores, but for a block's shifts.
  __device__ __forceinline__ const RawUnit<0>& unit() const { return unit_; }

 private:
  static constexpr float kMost = std::numeric_limits<float>::max();
  // Up to here step * column stays under 2^12, and its rounding under 2^-12 of a unit of products.
  static constexpr float kSteep = 32.0f;
  // In units of log2; products may come to as much again.
  static constexpr float kLargest = 0x1p27f;

  RawUnit<0> unit_;
  int first_position_;  // of the tile's first row among the keys
  bool steep_;
  float of_product_ = 1.0f;
  float a_key_;  // what a key's distance takes off a score
};

}  // namespace attnd::cuda::sm90
