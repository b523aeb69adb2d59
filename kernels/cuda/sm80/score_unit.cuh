// The unit in which the sm_80 kernel keeps scores.
#pragma once

#include "kernels/attention_params.h"
#include "kernels/cuda/finished_scores.h"

namespace attnd::cuda::sm80 {

// Raw products are scaled inside the exponent's multiply-add, which is free. Finished scores are in
// natural units and may be anything that float32 holds: in units of log2 the largest would
// overflow. The plain variant (kGeneral false) never has them.
template <bool kGeneral>
struct ScoreUnit {
  bool finished;
  float natural_factor;  // turns the unit into that of AttentionParams
  float log2_factor;     // turns the unit into log2

  __device__ __forceinline__ explicit ScoreUnit(const AttentionParams& p)
      : finished(kGeneral && NeedsFinishedScores(p)),
        natural_factor(finished ? 1.0f : p.softmax_scale),
        log2_factor(natural_factor * 1.4426950408889634f) {}
};

// The exponents of 2 of a row's weights, which are relative to its maximum `shift`, and of the
// factor that makes weights relative to an earlier maximum relative to this one.
//
// Finished scores subtract it before they change units: the difference is never positive, and where
// it overflows the weight is 0. Raw products subtract it inside the multiply-add. One formula
// serves both, as score - 0 is the score itself, bit for bit.
//
// Every exponent of raw products uses the same rounded product factor * shift, that of an earlier
// maximum too, so that its rounding cancels in the quotient.
class Exponents {
 public:
  template <bool kGeneral>
  __device__ __forceinline__ Exponents(const ScoreUnit<kGeneral>& unit, float shift)
      : before_(unit.finished ? shift : 0.0f),
        factor_(unit.log2_factor),
        after_(unit.finished ? 0.0f : -__fmul_rn(shift, unit.log2_factor)) {}

  __device__ __forceinline__ float Of(float score) const {
    return __fmaf_rn(score - before_, factor_, after_);
  }
  __device__ __forceinline__ float OfEarlierMax(float max) const {
    return __fadd_rn(__fmul_rn(max - before_, factor_), after_);
  }

 private:
  float before_;
  float factor_;
  float after_;
};

}  // namespace attnd::cuda::sm80
