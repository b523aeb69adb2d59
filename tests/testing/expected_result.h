// What a problem's results must be, and how far an implementation may be from it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "tests/testing/problem.h"

namespace attnd::testing {

// Exact results in float64, dense over [batch_size, seqlen_q, ...]; rows past a sequence's room are
// 0. `allowed_*` bound the absolute error: twice the largest error of the un-fused computation in
// the same dtype, and the rounding of the output type at the largest value.
struct ExpectedResult {
  std::vector<double> out;    // [batch_size, seqlen_q, num_heads, head_dim_v]
  std::vector<double> lse;    // [batch_size, num_heads, seqlen_q]
  std::vector<double> probs;  // [batch_size, num_heads, seqlen_q, seqlen_k]
  double allowed_out = 0.0;
  double allowed_lse = 0.0;
  double allowed_probs = 0.0;
};

ExpectedResult ComputeExpected(Problem& problem);

// ComputeExpected of one problem, the first time it is asked for. Copies share the result.
class LazyExpected {
 public:
  const ExpectedResult& Of(Problem& problem) {
    if (!result_->has_value()) *result_ = ComputeExpected(problem);
    return **result_;
  }

 private:
  std::shared_ptr<std::optional<ExpectedResult>> result_ =
      std::make_shared<std::optional<ExpectedResult>>();
};

// Whether the results that the problem asks for agree with `expected`: infinities and NaN in the
// same places, all else within the allowed error, and no byte written that belongs to no result. A
// failure tells the worst place, both values there and the share of elements that pass.
::testing::AssertionResult ResultsMatch(Problem& problem, const ExpectedResult& expected);

// Whether two runs of the same problem, perhaps in different layouts, gave the same bits. `b` is
// the sequence of `batched` that `alone` consists of.
::testing::AssertionResult SameBits(Problem& alone, Problem& batched, std::int64_t b);

}  // namespace attnd::testing
