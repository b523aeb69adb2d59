#include "tests/testing/compare.h"

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attnd::testing {
namespace {

// Infinite where one value is not finite and the other is not the same.
double Error(double expected, float actual) {
  if (std::isnan(expected) || std::isnan(actual)) {
    return std::isnan(expected) && std::isnan(actual) ? 0.0
                                                      : std::numeric_limits<double>::infinity();
  }
  if (expected == actual) return 0.0;
  return std::abs(expected - actual);
}

std::string Place(std::int64_t index, const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> indices(dims.size());
  for (std::size_t i = dims.size(); i-- > 0;) {
    indices[i] = index % dims[i];
    index /= dims[i];
  }
  return absl::StrCat("[", absl::StrJoin(indices, ", "), "]");
}

}  // namespace

::testing::AssertionResult Matches(const TensorComparison& c) {
  if (c.expected.size() != c.actual.size()) {
    return ::testing::AssertionFailure() << c.name << " has " << c.actual.size() << " elements, "
                                         << c.expected.size() << " expected";
  }
  std::int64_t worst = 0;
  double worst_error = -1.0;
  std::int64_t passed = 0;
  for (std::size_t i = 0; i < c.expected.size(); ++i) {
    const double error = Error(c.expected[i], c.actual[i]);
    passed += error <= c.allowed;
    if (error > worst_error) {
      worst_error = error;
      worst = static_cast<std::int64_t>(i);
    }
  }
  if (passed == static_cast<std::int64_t>(c.expected.size())) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << c.name << Place(worst, c.dims) << " is " << c.actual[worst] << ", expected "
         << c.expected[worst] << ": error " << worst_error << ", allowed " << c.allowed << "; "
         << 100.0 * static_cast<double>(passed) / static_cast<double>(c.expected.size())
         << " % of the elements pass";
}

}  // namespace attnd::testing
