// Single-instruction float32 functions, and what is built from them.
#pragma once

#include <cmath>

namespace attnd::cuda::ptx {

// 2^x with a relative error of 2^-22; 0 for -inf, NaN for NaN. Results below 2^-126 become 0.
__device__ __forceinline__ float Exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// 1 / x with a relative error of 2^-23; 0 where |x| exceeds 2^126, infinity included.
__device__ __forceinline__ float Reciprocal(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// condition ? yes : no, of two values that are both computed: of a conditional expression with a
// long side the compiler makes a branch, which costs more where lanes differ.
__device__ __forceinline__ float Select(bool condition, float yes, float no) {
  float result;
  asm("{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %3, 0;\n"
      "selp.f32 %0, %1, %2, p;\n"
      "}\n"
      : "=f"(result)
      : "f"(yes), "f"(no), "r"(static_cast<unsigned>(condition)));
  return result;
}

// tanh(x) with a relative error under 3.3e-7, so that a softcap costs a score no more than that
// part of it, however large the cap. Where |x| < 0.75 it is an odd polynomial (minimax in relative
// error, within 1.1e-7), else 1 - 2 / (e^(2|x|) + 1), of which a small x would leave only the
// rounding of 1. tanh.approx is a single instruction and off by 2^-11: 0.02 in a score under a
// softcap of 50.
__device__ __forceinline__ float Tanh(float x) {
  constexpr float kTwoLog2E = 2.885390081777927f;
  const float square = x * x;
  float poly = -4.7694925e-3f;
  poly = __fmaf_rn(poly, square, 1.9664917e-2f);
  poly = __fmaf_rn(poly, square, -5.3390261e-2f);
  poly = __fmaf_rn(poly, square, 1.3326521e-1f);
  poly = __fmaf_rn(poly, square, -3.3333068e-1f);
  const float small = __fmaf_rn(x * square, poly, x);
  const float large = __fmaf_rn(-2.0f, Reciprocal(Exp2(fabsf(x) * kTwoLog2E) + 1.0f), 1.0f);
  return fabsf(x) < 0.75f ? small : copysignf(large, x);
}

}  // namespace attnd::cuda::ptx
