// Comparison of a tensor with its exact values.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace attnd::testing {

struct TensorComparison {
  std::string name;
  std::vector<std::int64_t> dims;  // to print a place as indices
  const std::vector<double>& expected;
  const std::vector<float>& actual;
  double allowed = 0.0;  // absolute error
};

// Infinities of the same sign and NaN must be in the same places; all else must be within
// `allowed`. A failure tells the worst place, both values there and the share of elements that
// pass.
::testing::AssertionResult Matches(const TensorComparison& comparison);

}  // namespace attnd::testing
