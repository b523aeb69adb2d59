// The online softmax of a warp's score tile, in registers (Milakov and Gimelshein 2018;
// FlashAttention-2, Dao 2023, algorithm 1).
#pragma once

#include <cmath>

#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/sm80/score_unit.cuh"
#include "kernels/cuda/sm80/tile_products.cuh"
#include "kernels/online_softmax.h"

namespace attnd::cuda::sm80 {

// Largest value of the four lanes that share a row.
__device__ __forceinline__ float QuadMax(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}

__device__ __forceinline__ float QuadSum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

// Running maximum and denominator of the rows that a lane has a share of: row half h of fragment i
// is row 16 i + lane / 4 + 8 h. Scores and m are in the unit that Absorb
// is told.
template <int kFragmentsM>
struct TileSoftmax {
  float m[kFragmentsM]
         [2];  // true maximum, -inf while nothing was seen; equal in all four lanes of a row
  float l[kFragmentsM][2];  // this lane's share of the sum of weights exp(score - m)

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        m[i][h] = NegativeInfinity();
        l[i][h] = 0.0f;
      }
  }

  // Absorbs a tile of scores (-inf: not attended to), turns it into weights in place, and rescales
  // `out` to the new maximum. Rows that have seen nothing subtract 0 instead of -inf, so that their
  // weights are 0 and not NaN; m itself stays true.
  template <int kFragmentsN, int kFragmentsV, bool kGeneral>
  __device__ __forceinline__ void Absorb(Accumulators<kFragmentsM, kFragmentsN>& scores,
                                         Accumulators<kFragmentsM, kFragmentsV>& out,
                                         const ScoreUnit<kGeneral>& unit) {
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float m_new = scores.values[i][0][2 * h];
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j)
          m_new = fmaxf(m_new, fmaxf(scores.values[i][j][2 * h], scores.values[i][j][2 * h + 1]));
        m_new = fmaxf(m[i][h], QuadMax(m_new));
        const float shift = m_new == NegativeInfinity() ? 0.0f : m_new;
        const Exponents exponents(unit, shift);
        const float factor = ptx::Exp2(exponents.OfEarlierMax(m[i][h]));
        float sum = 0.0f;
#pragma unroll
        for (int j = 0; j < kFragmentsN; ++j) {
#pragma unroll
          for (int e = 2 * h; e < 2 * h + 2; ++e) {
            scores.values[i][j][e] = ptx::Exp2(exponents.Of(scores.values[i][j][e]));
            sum += scores.values[i][j][e];
          }
        }
        l[i][h] = __fmaf_rn(l[i][h], factor, sum);
        m[i][h] = m_new;
#pragma unroll
        for (int j = 0; j < kFragmentsV; ++j) {
          out.values[i][j][2 * h] *= factor;
          out.values[i][j][2 * h + 1] *= factor;
        }
      }
    }
  }
};

}  // namespace attnd::cuda::sm80
