// The parts of `attnctl verify` and `bench`: comparison, error bounds, formulas.
#include "client/attnctl/verification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "client/attnctl/element_types.h"
#include "client/attnctl/error_bound.h"
#include "client/attnctl/generations.h"
#include "client/attnctl/load_run.h"
#include "client/attnctl/local_attention.h"
#include "client/attnctl/verify_cases.h"

namespace attnd::attnctl {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ComparisonTest, FindsTheWorstElement) {
  const float exact[] = {1, 2, 4, 0};
  const float actual[] = {1, 2.5, 4.25, 0};
  const Comparison result = Compare(actual, exact, 0.3);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.elements, 4);
  EXPECT_EQ(result.passed, 3);
  EXPECT_EQ(result.max_absolute_error, 0.5);
  EXPECT_EQ(result.max_relative_error, 0.25);
  EXPECT_EQ(result.worst, 1);
  EXPECT_EQ(result.worst_actual, 2.5f);
  EXPECT_EQ(result.worst_exact, 2.0f);
}

TEST(ComparisonTest, InfinitiesAndNanPassOnlyInTheSamePlace) {
  const float nan = std::nanf("");
  const float same[] = {kInfinity, -kInfinity, nan};
  EXPECT_TRUE(Compare(same, same, 0).ok());
  const float finite[] = {1, 1, 1};
  const float opposite[] = {-kInfinity, kInfinity, 1};
  EXPECT_EQ(Compare(finite, same, 1e30).passed, 0);
  EXPECT_EQ(Compare(same, finite, 1e30).passed, 0);
  EXPECT_EQ(Compare(opposite, same, 1e30).passed, 0);
}

TEST(ComparisonTest, PositionsAreIndices) {
  EXPECT_EQ(Position(0, {2, 3, 4}), "[0, 0, 0]");
  EXPECT_EQ(Position(23, {2, 3, 4}), "[1, 2, 3]");
}

// Every built-in problem, computed by one kernel of this machine and compared with another.
TEST(VerificationTest, AnotherKernelStaysWithinTheBounds) {
  std::uint64_t seed = 100;
  for (VerifyCase& verify_case : VerifyCases()) {
    for (const v1::DataType dtype :
         {v1::DATA_TYPE_FLOAT32, v1::DATA_TYPE_FLOAT16, v1::DATA_TYPE_BFLOAT16}) {
      verify_case.spec.set_dtype(dtype);
      const HostProblem problem = RandomProblem(verify_case.spec, seed++);
      const v1::DataType out_dtype = ProblemSizes(problem.spec).out_dtype;
      const auto exact = ComputeLocally(problem, {.probs = true});
      ASSERT_TRUE(exact.ok()) << verify_case.name << exact.status();
      const ErrorBounds bounds = BoundsFor(problem, *exact);
      const auto fused = ComputeLocally(problem, {.algorithm = "fused", .out_dtype = out_dtype});
      ASSERT_TRUE(fused.ok()) << verify_case.name << fused.status();
      EXPECT_TRUE(Compare(fused->out, exact->out, bounds.out).ok()) << verify_case.name;
      EXPECT_TRUE(Compare(fused->lse, exact->lse, bounds.lse).ok()) << verify_case.name;
    }
  }
}

TEST(VerificationTest, BoundsAreTightEnoughToSeeAnError) {
  for (const VerifyCase& verify_case : VerifyCases()) {
    if (verify_case.name != "tile_and_one") continue;
    const HostProblem problem = RandomProblem(verify_case.spec, 3);
    const auto exact = ComputeLocally(problem, {.probs = true});
    ASSERT_TRUE(exact.ok()) << exact.status();
    const ErrorBounds bounds = BoundsFor(problem, *exact);
    EXPECT_LT(bounds.out, 1e-5);
    EXPECT_LT(bounds.lse, 1e-4);
    EXPECT_GT(bounds.out, 0);
  }
}

TEST(RandomProblemTest, TheSameSeedGivesTheSameTensors) {
  const v1::AttentionSpec spec = VerifyCases().back().spec;
  EXPECT_EQ(RandomProblem(spec, 5).q, RandomProblem(spec, 5).q);
  EXPECT_NE(RandomProblem(spec, 5).q, RandomProblem(spec, 6).q);
}

v1::AttentionSpec SmallSpec() {
  v1::AttentionSpec spec;
  spec.set_batch_size(2);
  spec.set_seqlen_q(10);
  spec.set_seqlen_k(20);
  spec.set_num_heads(4);
  spec.set_num_kv_heads(2);
  spec.set_head_dim(8);
  spec.set_dtype(v1::DATA_TYPE_FLOAT16);
  return spec;
}

TEST(FormulasTest, FlopsCountBothProductsAndHalfOfSquareCausal) {
  v1::AttentionSpec spec = SmallSpec();
  EXPECT_EQ(AttentionFlops(spec), 4.0 * 2 * 4 * 10 * 20 * 8);
  spec.set_causal(true);
  EXPECT_EQ(AttentionFlops(spec), 4.0 * 2 * 4 * 10 * 20 * 8);
  spec.set_seqlen_k(10);
  EXPECT_EQ(AttentionFlops(spec), 4.0 * 2 * 4 * 10 * 10 * 8 / 2);
}

TEST(FormulasTest, TrafficFollowsEachGenerationsDefinition) {
  const v1::AttentionSpec spec = SmallSpec();
  const double q = 2 * 10 * 4 * 8 * 2;
  const double k = 2 * 20 * 2 * 8 * 2;
  const double scores = 2 * 4 * 10 * 20;
  EXPECT_EQ(MemoryTraffic(spec, v1::ALGORITHM_FUSED), 2 * q + 2 * k);
  EXPECT_EQ(MemoryTraffic(spec, v1::ALGORITHM_ONLINE), 2 * q + 2 * k);
  EXPECT_EQ(MemoryTraffic(spec, v1::ALGORITHM_TWO_PASS), 2 * q + 3 * k);
  EXPECT_EQ(MemoryTraffic(spec, v1::ALGORITHM_NAIVE), 2 * q + 2 * k + 16 * scores);
  EXPECT_EQ(PeakMemory(spec, v1::ALGORITHM_FUSED), 2 * q + 2 * k + 4 * 80);
  EXPECT_EQ(PeakMemory(spec, v1::ALGORITHM_NAIVE), 2 * q + 2 * k + 4 * 80 + 4 * scores + 8 * 80);
}

TEST(FormulasTest, PercentilesAreNearestRanks) {
  const std::vector<double> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  EXPECT_EQ(Percentile(values, 0.5), 5);
  EXPECT_EQ(Percentile(values, 0.95), 10);
  EXPECT_EQ(Percentile(values, 0.0), 1);
  EXPECT_EQ(Percentile(values, 1.0), 10);
  EXPECT_EQ(Percentile({}, 0.5), 0);
}

}  // namespace
}  // namespace attnd::attnctl
