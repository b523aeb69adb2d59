#include "server/engine/compute_cost.h"

#include "gtest/gtest.h"
#include "tests/server/engine/simple_problem.h"

namespace attnd {
namespace {

double CostOf(const AttentionProblem& problem) {
  return ComputeCost(*MakeAttentionPlan(problem, DeviceTraits{}));
}

TEST(ComputeCostTest, GrowsWithTheOutputOfRowsWithoutKeys) {
  EXPECT_EQ(CostOf(MakeProblem(0, 0, 64)), 0);
  EXPECT_GT(CostOf(MakeProblem(1000, 0, 64)), 1e6);
  EXPECT_EQ(CostOf(MakeProblem(2000, 0, 64)), 2 * CostOf(MakeProblem(1000, 0, 64)));
}

TEST(ComputeCostTest, IsHigherForKernelsThatAreSlower) {
  AttentionProblem problem = MakeProblem(50, 50, 64);
  const double fused = CostOf(problem);
  for (const char* algorithm : {"reference", "naive", "two_pass", "online"}) {
    problem.algorithm = algorithm;
    EXPECT_GT(CostOf(problem), 4 * fused) << algorithm;
  }
}

TEST(ComputeCostTest, CountsTheDiagnosticsPassOverScoresAndInputs) {
  AttentionProblem problem = MakeProblem(50, 50, 64);
  const double without = CostOf(problem);
  problem.want_diagnostics = true;
  EXPECT_GT(CostOf(problem), 4 * without);
  AttentionProblem keys_alone = MakeProblem(0, 3000, 64);
  keys_alone.want_diagnostics = true;
  EXPECT_GT(CostOf(keys_alone), 1e6);
}

}  // namespace
}  // namespace attnd
