// The softcap of a block of scores.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cuda/ptx/math.cuh"

namespace attnd::cuda::sm90 {

// Turns raw products into tanh(softmax_scale * product / softcap), with a relative error under
// 8e-7. Up to half the cap, where most scores are, that is a polynomial: the
// multiply-add units have time, and the unit for special functions, which takes the exponentials,
// has not. (tanh.approx, a single instruction of that unit, is off by 2^-11.)
class ScoreCap {
 public:
  // Scores are measured in quarters of the cap, so that |x| < 2, where the polynomial holds, is one
  // bit of a float. The factor is clipped: 0 * inf would be NaN.
  __device__ __forceinline__ ScoreCap(float softmax_scale, float softcap)
      : factor_(Clip(kQuarters * softmax_scale / softcap)) {}

  // All of a warp's scores take the same way; the result of one does not depend on it.
  template <int kCount>
  __device__ __forceinline__ void Apply(float (&scores)[kCount]) const {
    std::uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      scores[i] *= factor_;
      bits |= __float_as_uint(scores[i]);
    }
    if (__any_sync(0xffffffff, (bits & kTwoOrMore) != 0)) {
#pragma unroll
      for (int i = 0; i < kCount; ++i)
        scores[i] = fabsf(scores[i]) < 2.0f ? Near(scores[i]) : Far(scores[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) scores[i] = Near(scores[i]);
    }
  }

 private:
  static constexpr float kQuarters = 4.0f;
  static constexpr float kLargest = std::numeric_limits<float>::max();
  static constexpr std::uint32_t kTwoOrMore = 0x40000000;  // highest bit of the exponent

  static __device__ __forceinline__ float Clip(float factor) {
    return fminf(fmaxf(factor, -kLargest), kLargest);
  }

  // tanh(x / 4) for |x| < 2: odd, minimax in relative error (5.5e-7). Written in intrinsics, so
  // that it rounds alike wherever the compiler puts it.
  static __device__ __forceinline__ float Near(float x) {
    const float square = __fmul_rn(x, x);
    float poly = -4.44022256e-2f / 16384.0f;
    poly = __fmaf_rn(poly, square, 1.31902966e-1f / 1024.0f);
    poly = __fmaf_rn(poly, square, -3.33263179e-1f / 64.0f);
    poly = __fmaf_rn(poly, square, 9.99999456e-1f / 4.0f);
    return __fmul_rn(x, poly);
  }

  // tanh(x / 4) = 1 - 2 / (e^(x / 2) + 1) for x >= 2, of which a small x would leave only the
  // rounding of 1.
  static __device__ __forceinline__ float Far(float x) {
    constexpr float kHalfLog2E = 0.7213475204444817f;
    const float power = ptx::Exp2(fabsf(x) * kHalfLog2E);
    return copysignf(__fmaf_rn(-2.0f, ptx::Reciprocal(power + 1.0f), 1.0f), x);
  }

  float factor_;
};

}  // namespace attnd::cuda::sm90
