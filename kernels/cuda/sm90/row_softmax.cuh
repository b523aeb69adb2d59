// Online softmax over the two rows that a thread of a wgmma accumulator holds a part of.
#pragma once

#include "kernels/cuda/ptx/math.cuh"
#include "kernels/online_softmax.h"

namespace attnd::cuda::sm90 {

// The four lanes of a quad share two rows. `max` is the true running maximum of the scores, in
// their unit (-inf while nothing was seen), equal in all four; `sum` is this thread's own part of
// the denominator, so that rows are summed across lanes once, at the end.
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
    if constexpr (Unit::kShifted) {
      const float own = OwnMax(r, scores, NegativeInfinity());
      max[r] = MaxAcrossQuad(fmaxf(old_max, unit.Unshifted(r, own)));
    } else {
      max[r] = MaxAcrossQuad(OwnMax(r, scores, old_max));
    }
    Correct(r, old_max, unit, correction);
  }

  // RaiseMax in parts: this thread's share of the maximum, that of all four, and the factor.
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
    float reference = unit.Reference(max[r]);
    if constexpr (Unit::kShifted) reference = unit.Shifted(r, reference);
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
