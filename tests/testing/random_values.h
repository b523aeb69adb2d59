// Repeatable random numbers for test tensors.
#pragma once

#include <cstdint>
#include <random>

namespace attnd::testing {

enum class Distribution {
  kNormal,    // mean 0, variance 1
  kUniform,   // [-1, 1)
  kOutliers,  // normal; one in a hundred is 50 times as large
  kConstant,  // 0.5
};

class RandomValues {
 public:
  RandomValues(std::uint64_t seed, Distribution distribution)
      : generator_(seed), distribution_(distribution) {}

  float Next();

 private:
  std::mt19937_64 generator_;
  Distribution distribution_;
  std::normal_distribution<float> normal_;
  std::uniform_real_distribution<float> uniform_{-1.0f, 1.0f};
};

}  // namespace attnd::testing
