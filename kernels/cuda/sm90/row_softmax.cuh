// Online softmax over the two rows that a thread of a wgmma accumulator holds a part of.
#pragma once

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/ptx/math.cuh"
#include "kernels/data_type.h"
#include "kernels/online_softmax.h"

namespace attnd::cuda::sm90 {

// The place among a thread's scores of its score i of row r: accumulators hold two of each in turn.
__device__ __forceinline__ constexpr int PlaceInRow(int r, int i) {
  return i / 2 * 4 + 2 * r + i % 2;
}

// The four lanes of a quad share two rows. `max` is what their exponents are measured from (-inf
// while nothing was seen), in the unit of the scores: the largest score of some block, and of all
// blocks but for what RaiseWhereFar lets pass; equal in all four. `sum` is this thread's own part
// of the denominator, so that rows are summed across lanes once, at the end. Weights, and with them
// sums, are short of a factor 2^Unit::kHeadroom.
struct RowSoftmax {
  float max[2] = {NegativeInfinity(), NegativeInfinity()};
  float sum[2] = {0.0f, 0.0f};

  // Raises the maxima to those of a block of scores in `unit` (score_unit.cuh), if they are higher.
  // `correction` is then the factor for everything accumulated for a row so far.
  template <int kCount, typename Unit>
  __device__ __forceinline__ void Raise(const float (&scores)[kCount], Unit unit,
                                        float (&correction)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) MoveMax(r, RunningMax(r, scores, unit), unit, correction);
  }

  // The same, but that a maximum stays where it is if the unit lets it. Whether any row of the warp
  // was corrected: if none was, all factors are 1.
  template <int kCount, typename Unit>
  __device__ __forceinline__ bool RaiseWhereFar(const float (&scores)[kCount], Unit unit,
                                                float (&correction)[2]) {
    const float now[2] = {RunningMax(0, scores, unit), RunningMax(1, scores, unit)};
    const bool far[2] = {unit.IsFar(max[0], now[0]), unit.IsFar(max[1], now[1])};
    const bool any = __any_sync(0xffffffff, far[0] || far[1]);
    if (any) {
#pragma unroll
      for (int r = 0; r < 2; ++r) MoveMax(r, far[r] ? now[r] : max[r], unit, correction);
    }
    return any;
  }

  // The weights exp(score - max) of a block's scores of row r, in pairs as the output product takes
  // them. Returns the sum of this thread's.
  template <DataType kDtype, int kCount, typename Unit>
  __device__ __forceinline__ float Weigh(int r, const float (&scores)[kCount], Unit unit,
                                         std::uint32_t (&probs)[kCount / 2]) const {
    const float reference = InBlock(r, unit.Reference(max[r]), unit);
    return WeighFrom<kDtype>(reference, r, scores, unit, probs);
  }
  // The same, but that the weights of a row that has seen nothing are infinite or NaN.
  template <DataType kDtype, int kCount, typename Unit>
  __device__ __forceinline__ float Guess(int r, const float (&scores)[kCount], Unit unit,
                                         std::uint32_t (&probs)[kCount / 2]) const {
    return WeighFrom<kDtype>(InBlock(r, unit.Guess(max[r]), unit), r, scores, unit, probs);
  }
  // Guess, not yet in pairs.
  template <int kCount, typename Unit>
  __device__ __forceinline__ float GuessApart(int r, const float (&scores)[kCount], Unit unit,
                                              float (&weights)[kCount / 2]) const {
    const float reference = InBlock(r, unit.Guess(max[r]), unit);
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount / 2; ++i) {
      weights[i] = ptx::Exp2(unit.Exponent(scores[PlaceInRow(r, i)], reference));
      total += weights[i];
    }
    return total;
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
  template <DataType kDtype, int kCount, typename Unit>
  static __device__ __forceinline__ float WeighFrom(float reference, int r,
                                                    const float (&scores)[kCount], Unit unit,
                                                    std::uint32_t (&probs)[kCount / 2]) {
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const float* const pair = &scores[PlaceInRow(r, 2 * i)];
      const float weights[2] = {ptx::Exp2(unit.Exponent(pair[0], reference)),
                                ptx::Exp2(unit.Exponent(pair[1], reference))};
      total += weights[0];
      total += weights[1];
      probs[2 * i + r] = Element<kDtype>::Pack(weights[0], weights[1]);
      if constexpr (Unit::kLongExponents) {
        if (i % 4 == 3) unit.WaitFor(weights[0]);
      }
    }
    return total;
  }

  // The largest score that the row has come to with a block.
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
  // This thread's share of that.
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
  __device__ __forceinline__ void MoveMax(int r, float to, Unit unit, float (&correction)[2]) {
    const float reference = unit.Reference(to);
    correction[r] = ptx::Exp2(unit.ExponentOfMax(max[r], reference));
    sum[r] *= correction[r];
    max[r] = to;
  }
  // A row's reference as the exponents of a block subtract it.
  template <typename Unit>
  static __device__ __forceinline__ float InBlock(int r, float reference, const Unit& unit) {
    if constexpr (Unit::kShifted) {
      return unit.Shifted(r, reference);
    } else {
      return reference;
    }
  }
};

}  // namespace attnd::cuda::sm90
