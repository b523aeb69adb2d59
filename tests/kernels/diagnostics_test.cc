#include "kernels/diagnostics.h"

#include <gtest/gtest.h>

#include <limits>

#include "kernels/reference/attention_fp64.h"
#include "tests/testing/expected_diagnostics.h"
#include "tests/testing/kernel_runner.h"
#include "tests/testing/problem.h"
#include "tests/testing/threaded_parallel_for.h"

namespace attnd {
namespace {

using testing::ExpectedDiagnostics;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

AttentionDiagnostics Diagnose(testing::Problem& problem, ParallelFor* parallel_for = nullptr) {
  const auto runner = testing::MakeCpuRunner(cpu::ReferenceImplementation(), parallel_for);
  EXPECT_TRUE(runner->Run(problem).ok());
  ExecutionContext context;
  context.parallel_for = parallel_for;
  AttentionDiagnostics report;
  EXPECT_TRUE(RunDiagnostics(problem.params(), context, &report).ok());
  EXPECT_EQ(problem.CountStrayWrites(), 0);
  return report;
}

testing::ProblemSpec Spec() {
  testing::ProblemSpec spec;
  spec.batch_size = 2;
  spec.seqlen_q = 20;
  spec.seqlen_k = 30;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  return spec;
}

void ExpectAgrees(testing::Problem& problem) {
  const AttentionDiagnostics actual = Diagnose(problem);
  const AttentionDiagnostics expected = ExpectedDiagnostics(problem);
  EXPECT_NEAR(actual.score_min, expected.score_min, 1e-4);
  EXPECT_NEAR(actual.score_max, expected.score_max, 1e-4);
  EXPECT_NEAR(actual.lse_min, expected.lse_min, 1e-4);
  EXPECT_NEAR(actual.lse_max, expected.lse_max, 1e-4);
  EXPECT_NEAR(actual.largest_weight, expected.largest_weight, 1e-5);
  EXPECT_EQ(actual.rows_fully_masked, expected.rows_fully_masked);
}

TEST(DiagnosticsTest, RangesAgreeWithTheReference) {
  testing::Problem plain(Spec());
  ExpectAgrees(plain);
}

TEST(DiagnosticsTest, RangesAgreeWithTheReferenceUnderAllOptions) {
  testing::ProblemSpec spec = Spec();
  spec.dtype = DataType::kBFloat16;
  spec.layout = testing::Layout::kPacked;
  spec.rooms_q = {20, 7};
  spec.rooms_k = {3, 30};
  spec.causal = true;
  spec.window_left = 9;
  spec.softcap = 4.0f;
  spec.mask = spec.bias = testing::ScoreArray::kFull;
  spec.mask_empty_rows = true;
  spec.bias_minus_infinity = true;
  spec.alibi = testing::Slopes::kPerHead;
  spec.sinks = true;
  testing::Problem problem(spec);
  EXPECT_GT(ExpectedDiagnostics(problem).rows_fully_masked, 0);
  ExpectAgrees(problem);
}

TEST(DiagnosticsTest, NothingToAttendToLeavesTheRangesEmpty) {
  testing::ProblemSpec spec = Spec();
  spec.seqlen_k = 0;
  testing::Problem problem(spec);
  const AttentionDiagnostics report = Diagnose(problem);
  EXPECT_EQ(report.score_min, kInfinity);
  EXPECT_EQ(report.score_max, -kInfinity);
  EXPECT_EQ(report.lse_min, kInfinity);
  EXPECT_EQ(report.lse_max, -kInfinity);
  EXPECT_EQ(report.largest_weight, 0.0f);
  EXPECT_EQ(report.rows_fully_masked, 2 * 4 * 20);
}

TEST(DiagnosticsTest, NonfiniteElementsAreCountedByTensorAndWithinTheLengthsOnly) {
  testing::ProblemSpec spec = Spec();
  spec.lengths_q = {20, 11};  // what lies past them is NaN
  spec.lengths_k = {30, 5};
  spec.slack = 8;
  testing::Problem problem(spec);
  problem.SetQ(0, 19, 3, 1, kNan);
  problem.SetK(0, 0, 0, 0, kInfinity);
  problem.SetK(1, 4, 1, 63, -kInfinity);
  problem.SetV(1, 0, 0, 5, kNan);
  problem.SetV(1, 0, 0, 6, kNan);
  problem.SetV(0, 29, 1, 7, kInfinity);
  const AttentionDiagnostics report = Diagnose(problem);
  EXPECT_EQ(report.nonfinite_q, 1);
  EXPECT_EQ(report.nonfinite_k, 2);
  EXPECT_EQ(report.nonfinite_v, 3);
}

TEST(DiagnosticsTest, ThreadsDoNotChangeTheReport) {
  testing::Problem alone(Spec());
  testing::Problem threaded(Spec());
  testing::ThreadedParallelFor parallel_for(3);
  const AttentionDiagnostics a = Diagnose(alone);
  const AttentionDiagnostics b = Diagnose(threaded, &parallel_for);
  EXPECT_EQ(a.score_min, b.score_min);
  EXPECT_EQ(a.score_max, b.score_max);
  EXPECT_EQ(a.lse_min, b.lse_min);
  EXPECT_EQ(a.lse_max, b.lse_max);
  EXPECT_EQ(a.largest_weight, b.largest_weight);
}

}  // namespace
}  // namespace attnd
