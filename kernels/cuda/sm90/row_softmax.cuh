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

  // Absorbs one block of scores in `unit` (score_unit.cuh) and replaces them by their weights
  // exp(score - max). `correction[r]` is the factor for everything accumulated for row r so far.
  template <int kCount, typename Unit>
  __device__ __forceinline__ void Update(float (&scores)[kCount], const Unit& unit,
                                         float (&correction)[2]) {
    const float old_max[2] = {max[0], max[1]};
    FindMax(scores);
    float reference[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      reference[r] = unit.Reference(max[r]);
      correction[r] = ptx::Exp2(unit.ExponentOfMax(old_max[r], reference[r]));
      sum[r] *= correction[r];
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int r = (i >> 1) & 1;
      scores[i] = ptx::Exp2(unit.Exponent(scores[i], reference[r]));
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum[(i >> 1) & 1] += scores[i];
  }

  // Adds the four lanes' parts of the denominators.
  __device__ __forceinline__ void SumAcrossQuad() {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sum[r] += __shfl_xor_sync(0xffffffff, sum[r], 1);
      sum[r] += __shfl_xor_sync(0xffffffff, sum[r], 2);
    }
  }

 private:
  template <int kCount>
  __device__ __forceinline__ void FindMax(const float (&scores)[kCount]) {
    // Two independent chains a row: one chain's latency would be longer than the issue time of
    // both.
    float part[4] = {max[0], max[0], max[1], max[1]};
#pragma unroll
    for (int i = 0; i < kCount; ++i) part[i & 3] = fmaxf(part[i & 3], scores[i]);
      // part[0..1] saw the even rows' pairs, part[2..3] the odd ones': index bit 1 is the row.
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      max[r] = fmaxf(part[2 * r], part[2 * r + 1]);
      max[r] = fmaxf(max[r], __shfl_xor_sync(0xffffffff, max[r], 1));
      max[r] = fmaxf(max[r], __shfl_xor_sync(0xffffffff, max[r], 2));
    }
  }
};

}  // namespace attnd::cuda::sm90
