// Softcap inside the exponent.
#pragma once

#include "kernels/cuda/ptx/math.cuh"
#include "kernels/cuda/sm90/kernel_args.h"
#include "kernels/cuda/sm90/largest_weight.h"
#include "kernels/cuda/sm90/log2_units.h"
#include "kernels/online_softmax.h"

namespace attnd::cuda::sm90 {

// Raw products, which order like their capped scores. The exponent of a product x is
//   softcap * log2(e) * tanh(softmax_scale * x / softcap) - reference.
// Of a small argument the tanh is an odd polynomial of kTerms terms (cap_constants.h), whose
// multiply-adds run in the shadow of the exponentials: the unit that takes those is busy, and has
// no time for a tanh. A score of -inf is one that the row may not see; the polynomial, whose last
// coefficient is positive, leaves it -inf.
//
// Products below -near_limit are large, too, but in a settled row they need no better: see
// CapConstants. kNear: the polynomial is for all of a warp's products that rows see, but for those;
// or a guess that it is, which SurelyFits tells. Every product of a row rounds alike in both kinds,
// so that a row does not depend on what other rows hold. As the exponents of RawUnit, all use the
// same rounded reference.
template <int kTerms, bool kNear>
class CappedUnit {
 public:
  static constexpr bool kLongExponents = !kNear;
  static constexpr bool kShifted = false;
  static constexpr int kHeadroom = 0;

  __device__ __forceinline__ explicit CappedUnit(const KernelArgs& args)
      : cap_(args.cap),
        last_(kTerms == 3 ? args.cap.polynomial.rest
                          : args.cap.polynomial.coefficients[kTerms - 1]) {}

  // Keeps the compiler from beginning the next exponents before `weight` is there: it would begin
  // all at once, and run out of registers. A weight is finite, or NaN as the whole row is then.
  __device__ __forceinline__ void WaitFor(float weight) { last_ = __fmaf_rn(weight, 0.0f, last_); }

  // From here on exponents are those of a row with this maximum.
  __device__ __forceinline__ float Reference(float max) {
    settled_ = cap_.Settles(max);
    const float capped = Capped(max);
    return capped == NegativeInfinity() ? 0.0f : capped;
  }
  __device__ __forceinline__ float Guess(float max) const { return Polynomial(max, 0.0f); }
  // A maximum out of reach always moves: the row may come within it. So does one under a product
  // out of reach, which is told by the polynomial, as SurelyFits tells it: by the product itself
  // rounding might tell otherwise.
  __device__ __forceinline__ bool IsFar(float max, float reference, float largest) const {
    constexpr float kMost = LargestWeight<kHeadroom>::kExponent;
    const float most = fminf(kMost, Polynomial(cap_.near_limit, -reference));
    return !cap_.Reaches(max) || Polynomial(largest, -reference) > most;
  }
  // What a thread's weights of a row with this maximum must add up to less than, so that no product
  // can be out of reach above and the maximum need not move: the polynomial only rises.
  __device__ __forceinline__ float SurelyFits(float max) const {
    const float of_limit = ptx::Exp2(Polynomial(cap_.near_limit, -Polynomial(max, 0.0f)));
    return cap_.Reaches(max) ? fminf(0.99f * of_limit, LargestWeight<kHeadroom>::kSurelyFits)
                             : 0.0f;
  }
  __device__ __forceinline__ float Exponent(float score, float reference) const {
    const float near = Polynomial(score, -reference);
    if constexpr (kNear) return near;
    return ptx::Select(settled_ || IsNear(score), near, Far(score) - reference);
  }
  __device__ __forceinline__ float ExponentOfMax(float max, float reference) const {
    return Capped(max) - reference;
  }
  __device__ __forceinline__ float Natural(float max) {
    settled_ = cap_.Settles(max);
    return Capped(max) * kLn2;
  }

 private:
  __device__ __forceinline__ bool IsNear(float score) const {
    return fabsf(score) < cap_.near_limit;
  }

  // In units of log2.
  __device__ __forceinline__ float Capped(float score) const {
    const float near = Polynomial(score, 0.0f);
    if constexpr (kNear) return near;
    return ptx::Select(settled_ || IsNear(score), near, Far(score));
  }

  // The capped score near 0, in units of log2, and `more`.
  __device__ __forceinline__ float Polynomial(float score, float more) const {
    const CapPolynomial& p = cap_.polynomial;
    if constexpr (kTerms == 3) {
      const float square = __fmaf_rn(score, score, p.half);
      return __fmaf_rn(__fmul_rn(score, p.factor), __fmaf_rn(square, square, last_), more);
    } else {
      const float square = __fmul_rn(score, score);
      float slope = last_;
#pragma unroll
      for (int i = kTerms - 2; i >= 0; --i) slope = __fmaf_rn(slope, square, p.coefficients[i]);
      return __fmaf_rn(score, slope, more);
    }
  }

  // tanh(y) = 1 - 2 / (e^2y + 1), of which a small y would leave only the rounding of 1.
  __device__ __forceinline__ float Far(float score) const {
    const float power = ptx::Exp2(__fmul_rn(fabsf(score), cap_.far_scale));
    const float part = __fmaf_rn(-2.0f, ptx::Reciprocal(power + 1.0f), 1.0f);
    const float capped = copysignf(__fmul_rn(part, cap_.limit), score);
    return score == NegativeInfinity() ? score : capped;
  }

  const CapConstants& cap_;
  float last_;  // `rest`, or the last coefficient
  bool settled_ = false;
};

}  // namespace attnd::cuda::sm90
