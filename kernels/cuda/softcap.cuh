// The softcap of a score.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/cuda/ptx/math.cuh"

namespace attnd::cuda {

// softcap * tanh(score / softcap), for a finite softcap > 0.
class Softcap {
 public:
  // The inverse of a cap below 2^-128 is clipped: 0 * inf would be NaN. All scores are within
  // 2^-127 of 0 then, whatever the inverse.
  __device__ __forceinline__ explicit Softcap(float cap)
      : cap_(cap), inverse_(fminf(1.0f / cap, kLargest)) {}

  __device__ __forceinline__ float operator()(float score) const {
    return cap_ * ptx::Tanh(score * inverse_);
  }

 private:
  static constexpr float kLargest = std::numeric_limits<float>::max();

  float cap_;
  float inverse_;
};

}  // namespace attnd::cuda
