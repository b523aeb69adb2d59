// Online softmax over the two rows that a thread of a wgmma accumulator holds a part of.
#pragma once

#include "kernels/cuda/ptx/math.cuh"
#include "kernels/online_softmax.h"

namespace attnd::cuda::sm90 {

// The place among a thread's scores of its score i of row r: accumulators hold two of each in turn.
__device__ __forceinline__ constexpr int PlaceInRow(int r, int i) {
  return i / 2 * 4 + 2 * r + i % 2;
}

// Weights are at most about 2^15, which float16 holds: a maximum moves when a block exceeds it by
// more than that and the unit's headroom, in units of log2.
inline constexpr float kLargestExponent = 15.0f;

// The four lanes of a quad share two rows. `max` is what their exponents are measured from (-inf
// while nothing was seen), in the unit of the scores: the largest score of some block, and of all
// blocks but for what RaiseIfFar lets pass; equal in all four. `sum` is this thread's own part of
// the denominator, so that rows are summed across lanes once, at the end. Weights, and with them
// sums, are short of a factor 2^Unit::kHeadroom.
struct RowSoftmax {
  float max[2] = {NegativeInfinity(), NegativeInfinity()};
  float sum[2] = {0.0f, 0.0f};

  // Absorbs one block of scores of row r, in `unit` (score_unit.cuh), in two steps between which
  // other work may start: RaiseMax looks at them, and `correction[r]` is then the factor for
  // everything accumulated for the row so far; Exponentiate replaces them by their weights
  // exp(score - max).
  template <int kCount, typename Unit>
  __device__ __forceinline__ void RaiseMax(int r, const float (&scores)[kCount], Unit unit,
                                           float (&correction)[2]) {
    const float old_max = max[r];
    max[r] = RunningMax(r, scores, unit);
    Correct(r, old_max, unit, correction);
  }

  // RaiseMax of both rows, but that a maximum stays where it is in a block that exceeds it by
  // little. Whether any row of the warp was corrected; the factors of the others are 1, or 0 for
  // those that have seen nothing.
  template <int kCount, typename Unit>
  __device__ __forceinline__ bool RaiseIfFar(const float (&scores)[kCount], Unit unit,
                                             float (&correction)[2]) {
    const float now[2] = {RunningMax(0, scores, unit), RunningMax(1, scores, unit)};
    // Of -inf only what is more is far.
    constexpr float kFar = kLargestExponent + Unit::kHeadroom;
    const bool far[2] = {unit.Distance(max[0], now[0]) > kFar,
                         unit.Distance(max[1], now[1]) > kFar};
    correction[0] = correction[1] = 1.0f;
    const bool any = __any_sync(0xffffffff, far[0] || far[1]);
    if (any) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float old_max = max[r];
        max[r] = far[r] ? now[r] : old_max;
        Correct(r, old_max, unit, correction);
      }
    }
    return any;
  }

  // RaiseMax in parts: the row's running maximum, this thread's share of that of a block, that of
  // all four, and the factor.
  template <int kCount, typename Unit>
  __device__ __forceinline__ float RunningMax(int r, const float (&scores)[kCount],
                                              Unit unit) const {
    if constexpr (Unit::kShifted) {
      const float own = OwnMax(r, scores, NegativeInfinity());
      return MaxAcrossQuad(fmaxf(max[r], unit.Unshifted(r, own)));
    } else {
      return MaxAcrossQuad(OwnMax(r, scores, max[r]));
    }
  }
  template <int kCount>
  __device__ __forceinline__ float OwnMax(int r, const float (&scores)[kCount]) const {
    return OwnMax(r, scores, max[r]);
  }
  template <int kCount>
  static __device__ __forceinline__ float OwnMax(int r, const float (&scores)[kCount],
                                                 float least) {
    // Two independent chains: one chain's latency would be longer than the issue time of both.
    float part[2] = {least, least};
#pragma unroll
    for (int i = 2 * r; i < kCount; i += 4) {
      part[0] = fmaxf(part[0], scores[i]);
      part[1] = fmaxf(part[1], scores[i + 1]);
    }
    return fmaxf(part[0], part[1]);
  }
  static __device__ __forceinline__ float MaxAcrossQuad(float own) {
    own = fmaxf(own, __shfl_xor_sync(0xffffffff, own, 1));
    return fmaxf(own, __shfl_xor_sync(0xffffffff, own, 2));
  }
  template <typename Unit>
  __device__ __forceinline__ void Correct(int r, float old_max, Unit unit, float (&correction)[2]) {
    const float reference = unit.Reference(max[r]);
    correction[r] = ptx::Exp2(unit.ExponentOfMax(old_max, reference));
    sum[r] *= correction[r];
  }

  template <int kCount, typename Unit>
  __device__ __forceinline__ void Exponentiate(int r, float (&scores)[kCount], Unit unit) {
    const float reference = BlockReference(r, unit);
#pragma unroll
    for (int i = 2 * r; i < kCount; i += 4) {
      scores[i] = ptx::Exp2(unit.Exponent(scores[i], reference));
      scores[i + 1] = ptx::Exp2(unit.Exponent(scores[i + 1], reference));
      sum[r] += scores[i];
      sum[r] += scores[i + 1];
      if constexpr (Unit::kLongExponents) {
        if (i / 4 % 4 == 3) unit.WaitFor(scores[i - 12]);
      }
    }
  }

  // Exponentiate in two parts, of which the first can be done again: weights beside the scores, and
  // their entry in the place of the scores.
  template <int kCount, typename Unit>
  __device__ __forceinline__ void Weigh(int r, const float (&scores)[kCount], Unit unit,
                                        float (&weights)[kCount / 2]) const {
    const float reference = BlockReference(r, unit);
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i)
      weights[i] = ptx::Exp2(unit.Exponent(scores[PlaceInRow(r, i)], reference));
  }
  template <int kCount>
  __device__ __forceinline__ void Enter(int r, const float (&weights)[kCount / 2],
                                        float (&scores)[kCount]) {
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      scores[PlaceInRow(r, i)] = weights[i];
      sum[r] += weights[i];
    }
  }

  // What the exponents of a block subtract.
  template <typename Unit>
  __device__ __forceinline__ float BlockReference(int r, Unit& unit) const {
    const float reference = unit.Reference(max[r]);
    if constexpr (Unit::kShifted) {
      return unit.Shifted(r, reference);
    } else {
      return reference;
    }
  }

  // Adds the four lanes' parts of the denominators.
  __device__ __forceinline__ void SumAcrossQuad() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[r] += __shfl_xor_sync(0xffffffff, sum[r], 1);
      sum[r] += __shfl_xor_sync(0xffffffff, sum[r], 2);
    }
  }
};

}  // namespace attnd::cuda::sm90
