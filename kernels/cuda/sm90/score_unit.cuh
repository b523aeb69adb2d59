// The units in which the Hopper kernel keeps scores, and how the softmax takes exponents of 2 of
// them.
#pragma once

#include "kernels/cuda/sm90/capped_unit.cuh"
#include "kernels/cuda/sm90/kernel_args.h"
#include "kernels/cuda/sm90/largest_weight.h"
#include "kernels/cuda/sm90/log2_units.h"
#include "kernels/cuda/sm90/score_kind.h"
#include "kernels/online_softmax.h"

namespace attnd::cuda::sm90 {

// Each unit tells what the exponents of a row subtract, given its maximum (0 for a row whose scores
// so far are all -inf: exp2(-inf - 0) is 0 where exp2(-inf + inf) is NaN); the exponent of a score;
// that of an earlier maximum; and a maximum in the units of AttentionParams. Guess is what to
// subtract before a block was looked at: like Reference, but that all weights of a row that has
// seen nothing become infinite or NaN. IsFar: whether a thread's largest score lies so far above
// the maximum, of which `reference` is the Guess as the block subtracts it, that it must take its
// place; told by its very exponent, so that its weight tells, too. A unit whose exponents take many
// instructions has WaitFor.

// Raw products: scaled inside the exponent's multiply-add. Every exponent uses the same rounded
// product scale_log2 * max, so that its rounding cancels in the quotient (for scores up to those
// that docs/numerics.md names, "Range").
template <int kRoom>
struct RawUnit {
  static constexpr bool kLongExponents = false;
  static constexpr bool kShifted = false;
  static constexpr int kHeadroom = kRoom;

  float scale;
  float scale_log2;

  RawUnit() = default;
  __device__ __forceinline__ RawUnit(float to_natural, float to_log2)
      : scale(to_natural), scale_log2(to_log2) {}
  __device__ __forceinline__ explicit RawUnit(const KernelArgs& args)
      : RawUnit(args.p.softmax_scale, args.p.softmax_scale * kLog2E) {}

  __device__ __forceinline__ float Reference(float max) const {
    return max == NegativeInfinity() ? 0.0f : Lifted(max);
  }
  __device__ __forceinline__ float Exponent(float score, float reference) const {
    return __fmaf_rn(score, scale_log2, -reference);
  }
  __device__ __forceinline__ float ExponentOfMax(float max, float reference) const {
    return Lifted(max) - reference;
  }
  __device__ __forceinline__ float Guess(float max) const { return Lifted(max); }
  __device__ __forceinline__ bool IsFar(float, float reference, float largest) const {
    return Exponent(largest, reference) > LargestWeight<kRoom>::kExponent;
  }
  __device__ __forceinline__ float Natural(float max) const { return __fmul_rn(max, scale); }

 private:
  __device__ __forceinline__ float Lifted(float max) const {
    const float exponent = __fmul_rn(max, scale_log2);
    return kRoom == 0 ? exponent : __fadd_rn(exponent, kRoom);
  }
};

// Scores of slopes.cuh, in each block short of a shift that is a row's own. The running maximum is
// unshifted.
struct SlopedUnit : RawUnit<0> {
  static constexpr bool kShifted = true;

  float shifts[2];

  __device__ __forceinline__ SlopedUnit(const RawUnit<0>& unit, const float (&of_block)[2])
      : RawUnit<0>(unit), shifts{of_block[0], of_block[1]} {}

  __device__ __forceinline__ float Unshifted(int r, float score) const { return score + shifts[r]; }
  // What the exponents of a block subtract.
  __device__ __forceinline__ float Shifted(int r, float reference) const {
    return __fmaf_rn(-shifts[r], scale_log2, reference);
  }
};

// Finished scores, in natural units, which may be anything that float32 holds: in units of log2 the
// largest would overflow. Their differences from the maximum change units; where one overflows the
// weight is 0, or the maximum moves.
template <int kRoom>
struct FinishedUnit {
  static constexpr bool kLongExponents = false;
  static constexpr bool kShifted = false;
  static constexpr int kHeadroom = kRoom;

  __device__ __forceinline__ explicit FinishedUnit(const KernelArgs&) {}

  __device__ __forceinline__ float Reference(float max) const {
    return max == NegativeInfinity() ? 0.0f : max;
  }
  __device__ __forceinline__ float Exponent(float score, float reference) const {
    const float distance = score - reference;
    return kRoom == 0 ? distance * kLog2E : __fmaf_rn(distance, kLog2E, -kRoom);
  }
  __device__ __forceinline__ float ExponentOfMax(float max, float reference) const {
    return (max - reference) * kLog2E;
  }
  __device__ __forceinline__ float Guess(float max) const { return max; }
  __device__ __forceinline__ bool IsFar(float, float reference, float largest) const {
    return Exponent(largest, reference) > LargestWeight<kRoom>::kExponent;
  }
  __device__ __forceinline__ float Natural(float max) const { return max; }
};

// The unit that is right for all scores of a kind.
template <ScoreKind kKind, int kCapTerms, int kHeadroom>
struct ScoreUnitOf {
  using Type = RawUnit<kHeadroom>;
};
template <int kCapTerms, int kHeadroom>
struct ScoreUnitOf<ScoreKind::kCapped, kCapTerms, kHeadroom> {
  using Type = CappedUnit<kCapTerms, false>;
};
template <int kCapTerms, int kHeadroom>
struct ScoreUnitOf<ScoreKind::kFinished, kCapTerms, kHeadroom> {
  using Type = FinishedUnit<kHeadroom>;
};
template <int kCapTerms, int kHeadroom>
struct ScoreUnitOf<ScoreKind::kFinishedMasked, kCapTerms, kHeadroom> {
  using Type = FinishedUnit<kHeadroom>;
};

}  // namespace attnd::cuda::sm90
