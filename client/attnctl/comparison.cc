#include "client/attnctl/comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attnd::attnctl {
namespace {

double AbsoluteError(float actual, float exact) {
  if (actual == exact || (std::isnan(actual) && std::isnan(exact))) return 0.0;
  const double error = std::abs(static_cast<double>(actual) - static_cast<double>(exact));
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
}

}  // namespace

Comparison Compare(std::span<const float> actual, std::span<const float> exact, double bound) {
  Comparison result;
  result.elements = static_cast<std::int64_t>(exact.size());
  result.bound = bound;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double error = AbsoluteError(actual[i], exact[i]);
    result.passed += error <= bound;
    if (exact[i] != 0.0f && std::isfinite(exact[i])) {
      result.max_relative_error =
          std::max(result.max_relative_error, error / std::abs(static_cast<double>(exact[i])));
    }
    if (result.worst < 0 || error > result.max_absolute_error) {
      result.max_absolute_error = error;
      result.worst = static_cast<std::int64_t>(i);
      result.worst_actual = actual[i];
      result.worst_exact = exact[i];
    }
  }
  return result;
}

std::string Position(std::int64_t index, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> indices(shape.size());
  for (std::size_t i = shape.size(); i-- > 0;) {
    indices[i] = index % shape[i];
    index /= shape[i];
  }
  return absl::StrCat("[", absl::StrJoin(indices, ", "), "]");
}

}  // namespace attnd::attnctl
