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
  __device__ __forceinline__ void Raise(const float (&scores)[kCount], const Unit& unit,
                                        float (&correction)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r)
      MoveMax(r, RunningMax(r, OwnMax(r, scores), unit), unit, correction);
  }

  // The same, but that a maximum stays where it is if the unit lets it. Whether any row of the warp
  // was corrected; where none was, `correction` is not set.
  template <int kCount, typename Unit>
  __device__ __forceinline__ bool RaiseWhereFar(const float (&scores)[kCount], const Unit& unit,
                                                float (&correction)[2]) {
    const float own[2] = {OwnMax(0, scores), OwnMax(1, scores)};
    bool far[2];
#pragma unroll
    for (int r = 0; r < 2; ++r)
      far[r] = AnyOfQuad(unit.IsFar(max[r], InBlock(r, unit.Guess(max[r]), unit), own[r]));
    const bool any = __any_sync(0xffffffff, far[0] || far[1]);
    if (any) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float now = RunningMax(r, own[r], unit);
        MoveMax(r, far[r] ? now : max[r], unit, correction);
      }
    }
    return any;
  }

  // The weights exp(score - max) of a block's scores of row r, in pairs as the output product takes
  // them. Returns the sum of this thread's.
  template <DataType kDtype, int kCount, typename Unit>
  __device__ __forceinline__ float Weigh(int r, const float (&scores)[kCount], Unit unit,
                                         std::uint32_t (&probs)[kCount / 2]) const {
    const float reference = InBlock(r, unit.Reference(max[r]), unit);
    return ForEachPair(reference, r, scores, unit, Packed<kDtype>(r, probs));
  }
  // The same before the block was looked at: the weights of a row that has seen nothing are
  // infinite or NaN.
  template <DataType kDtype, int kCount, typename Unit>
  __device__ __forceinline__ float Guess(int r, const float (&scores)[kCount], const Unit& unit,
                                         std::uint32_t (&probs)[kCount / 2]) const {
    const float reference = InBlock(r, unit.Guess(max[r]), unit);
    return ForEachPair(reference, r, scores, unit, Packed<kDtype>(r, probs));
  }
  // Guess, but not in pairs yet.
  template <int kCount, typename Unit>
  __device__ __forceinline__ float GuessApart(int r, const float (&scores)[kCount],
                                              const Unit& unit,
                                              float (&weights)[kCount / 2]) const {
    const float reference = InBlock(r, unit.Guess(max[r]), unit);
    return ForEachPair(reference, r, scores, unit, [&](int i, float first, float second) {
      weights[2 * i] = first;
      weights[2 * i + 1] = second;
    });
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
  template <DataType kDtype, int kPairs>
  static __device__ __forceinline__ auto Packed(int r, std::uint32_t (&probs)[kPairs]) {
    return [&probs, r](int i, float first, float second) {
      probs[2 * i + r] = Element<kDtype>::Pack(first, second);
    };
  }
  // Calls take(i, weight, weight) for each pair of a row's weights. Returns their sum.
  template <int kCount, typename Unit, typename Take>
  static __device__ __forceinline__ float ForEachPair(float reference, int r,
                                                      const float (&scores)[kCount], Unit unit,
                                                      Take take) {
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const float* const pair = &scores[PlaceInRow(r, 2 * i)];
      const float first = ptx::Exp2(unit.Exponent(pair[0], reference));
      const float second = ptx::Exp2(unit.Exponent(pair[1], reference));
      total += first;
      total += second;
      take(i, first, second);
      if constexpr (Unit::kLongExponents) {
        if (i % 4 == 3) unit.WaitFor(first);
      }
    }
    return total;
  }

  // This thread's largest score of row r.
  template <int kCount>
  static __device__ __forceinline__ float OwnMax(int r, const float (&scores)[kCount]) {
    // Two independent chains: one chain's latency would be longer than the issue time of both.
    float part[2] = {NegativeInfinity(), NegativeInfinity()};
#pragma unroll
    for (int i = 2 * r; i < kCount; i += 4) {
      part[0] = fmaxf(part[0], scores[i]);
      part[1] = fmaxf(part[1], scores[i + 1]);
    }
    return fmaxf(part[0], part[1]);
  }
  // The row's maximum with that of a block, of which `own` is this thread's: each thread has shifts
  // of its own.
  template <typename Unit>
  __device__ __forceinline__ float RunningMax(int r, float own, const Unit& unit) const {
    if constexpr (Unit::kShifted) own = unit.Unshifted(r, own);
    float now = fmaxf(max[r], own);
    now = fmaxf(now, __shfl_xor_sync(0xffffffff, now, 1));
    return fmaxf(now, __shfl_xor_sync(0xffffffff, now, 2));
  }
  static __device__ __forceinline__ bool AnyOfQuad(bool own) {
    const unsigned lanes = __ballot_sync(0xffffffff, own);
    return (lanes >> threadIdx.x % 32 / 4 * 4 & 0xf) != 0;
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
