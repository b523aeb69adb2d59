// How a tensor that a server computed compares with its exact values.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace attnd::attnctl {

struct Comparison {
  std::int64_t elements = 0;
  std::int64_t passed = 0;  // within the bound; infinities and NaN only in the same place
  double bound = 0;         // on the absolute error
  double max_absolute_error =
      0;  // infinite where one value is not finite and the other is not the same
  double max_relative_error = 0;  // over elements whose exact value is not 0
  std::int64_t worst = -1;  // index of the element with the largest absolute error; -1: no elements
  float worst_actual = 0;
  float worst_exact = 0;

  bool ok() const { return passed == elements; }
};

// Both have the same number of elements.
Comparison Compare(std::span<const float> actual, std::span<const float> exact, double bound);

// "[0, 3, 1, 7]": the element `index` of an array of `shape`.
std::string Position(std::int64_t index, const std::vector<std::int64_t>& shape);

}  // namespace attnd::attnctl
