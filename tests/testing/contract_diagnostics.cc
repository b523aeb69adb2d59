// The largest weight that the numerical-stability report tells is that of the row's scores, however
// large these are. Every score here is a number that float32 holds, reached without rounding: what
// is left to err is the report.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/accuracy_grid.h"
#include "tests/testing/contract_cases.h"
#include "tests/testing/expected_diagnostics.h"

namespace attnd::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Of the exponential function and of the report's own rounding.
constexpr double kRelativeTolerance = 1e-6;

// Whole numbers that every type holds: scores are 256 * base and a few more or less.
constexpr float kQueryFactor = 256.0f;
constexpr float kBaseOf3e4 = 117.0f;
constexpr float kBaseOf1e7 = 39168.0f;  // where float32 holds whole numbers only

ProblemSpec ExactSpec(DataType dtype) {
  ProblemSpec spec = Spec("", 20, 70);
  spec.dtype = dtype;
  spec.num_heads = 2;
  spec.softmax_scale = 1.0f;
  return spec;
}

void SetRow(Problem& problem,
            void (Problem::*set)(std::int64_t, std::int64_t, std::int64_t, std::int64_t, float),
            std::int64_t row, std::int64_t head, float first, float second) {
  for (std::int64_t d = 0; d < problem.spec().head_dim; ++d) {
    (problem.*set)(0, row, head, d, d == 0 ? first : d == 1 ? second : 0.0f);
  }
}

// Gives key j the score 256 * base - j % 4 in every row.
void SetScores(Problem& problem, float base) {
  const ProblemSpec& spec = problem.spec();
  for (std::int64_t row = 0; row < spec.seqlen_q; ++row) {
    for (std::int64_t head = 0; head < spec.num_heads; ++head) {
      SetRow(problem, &Problem::SetQ, row, head, kQueryFactor, 1.0f);
    }
  }
  for (std::int64_t key = 0; key < spec.seqlen_k; ++key) {
    SetRow(problem, &Problem::SetK, key, 0, base, -static_cast<float>(key % 4));
  }
}

void CheckReport(KernelRunner& runner, Problem& problem) {
  if (!RunOrSkip(runner, problem)) return;
  AttentionDiagnostics actual;
  const absl::Status status = runner.RunDiagnostics(problem, &actual);
  ASSERT_TRUE(status.ok()) << status.ToString();
  const AttentionDiagnostics expected = ExpectedDiagnostics(problem);
  EXPECT_EQ(actual.score_min, expected.score_min);
  EXPECT_EQ(actual.score_max, expected.score_max);
  EXPECT_NEAR(actual.largest_weight, expected.largest_weight,
              kRelativeTolerance * expected.largest_weight);
  EXPECT_LE(actual.largest_weight, 1.0f);
  EXPECT_EQ(actual.rows_fully_masked, expected.rows_fully_masked);
}

void CheckScores(KernelRunner& runner, const ProblemSpec& spec, float base) {
  Problem problem(spec);
  SetScores(problem, base);
  CheckReport(runner, problem);
}

// A sink takes its share of the denominator: none, a little, most, or all of it.
void CheckSinks(KernelRunner& runner, ProblemSpec spec, float base) {
  spec.sinks = true;
  for (const float lead : {-kInfinity, -2.0f, 0.0f, 6.0f, 60.0f, 200.0f}) {
    SCOPED_TRACE(absl::StrCat("a sink ", lead, " above the largest score"));
    Problem problem(spec);
    SetScores(problem, base);
    problem.SetSink(0, kQueryFactor * base + lead);
    problem.SetSink(1, kQueryFactor * base + lead + 1.0f);
    CheckReport(runner, problem);
  }
}

// Rows without keys, by a causal mask, are counted and have no weight; row 0 of the others sees
// one key.
void CheckRowsWithoutKeys(KernelRunner& runner, ProblemSpec spec, float base) {
  spec.seqlen_k = 12;
  spec.causal = true;
  CheckScores(runner, spec, base);
  CheckSinks(runner, spec, base);
}

// All rows fully masked: no weight at all, sinks or not.
void CheckNoKeys(KernelRunner& runner, ProblemSpec spec) {
  spec.mask = ScoreArray::kColumnsOnly;
  for (const bool sinks : {false, true}) {
    spec.sinks = sinks;
    Problem problem(spec);
    for (std::int64_t key = 0; key < spec.seqlen_k; ++key) problem.SetMask(0, 0, 0, key, false);
    CheckReport(runner, problem);
  }
}

ProblemSpec ManyKeys(ProblemSpec spec) {
  spec.seqlen_q = 1;
  spec.seqlen_k = 6000;
  return spec;
}

// Every key raises the maximum by 2^-9, and the sum shrinks by as much: in float32 the roundings of
// that factor, all alike, would come to 4e-5.
void CheckRisingScores(KernelRunner& runner, const ProblemSpec& spec) {
  constexpr std::int64_t kPart = 128;
  Problem problem(ManyKeys(spec));
  for (std::int64_t head = 0; head < spec.num_heads; ++head) {
    SetRow(problem, &Problem::SetQ, 0, head, kPart * 0x1p-9f, 0x1p-9f);
  }
  for (std::int64_t key = 0; key < problem.spec().seqlen_k; ++key) {
    SetRow(problem, &Problem::SetK, key, 0, static_cast<float>(kPart + key / kPart),
           static_cast<float>(key % kPart));
  }
  CheckReport(runner, problem);
}

// One key of weight 1 before many of weight exp(-9): a float32 sum would be off by 8e-5.
void CheckManySmallWeights(KernelRunner& runner, const ProblemSpec& spec) {
  Problem problem(ManyKeys(spec));
  for (std::int64_t head = 0; head < spec.num_heads; ++head) {
    SetRow(problem, &Problem::SetQ, 0, head, 1.0f, 0.0f);
  }
  for (std::int64_t key = 0; key < problem.spec().seqlen_k; ++key) {
    SetRow(problem, &Problem::SetK, key, 0, key == 0 ? 16.0f : 7.0f, 0.0f);
  }
  CheckReport(runner, problem);
}

}  // namespace

std::vector<ContractCase> DiagnosticsCases() {
  std::vector<ContractCase> cases;
  for (DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    const ProblemSpec spec = ExactSpec(dtype);
    const auto add = [&](const std::string& name, std::function<void(KernelRunner&)> check) {
      cases.push_back(
          {absl::StrCat("Diagnostics_", name, "_", std::string(NameOf(dtype))), std::move(check)});
    };
    add("NoKeys", [spec](KernelRunner& runner) { CheckNoKeys(runner, spec); });
    add("RisingScores", [spec](KernelRunner& runner) { CheckRisingScores(runner, spec); });
    add("ManySmallWeights", [spec](KernelRunner& runner) { CheckManySmallWeights(runner, spec); });
    for (const auto& [size, base] : {std::pair("3e4", kBaseOf3e4), std::pair("1e7", kBaseOf1e7)}) {
      add(absl::StrCat("ScoresOf", size),
          [spec, base = base](KernelRunner& runner) { CheckScores(runner, spec, base); });
      add(absl::StrCat("SinksBesideScoresOf", size),
          [spec, base = base](KernelRunner& runner) { CheckSinks(runner, spec, base); });
      add(absl::StrCat("RowsWithoutKeysBesideScoresOf", size),
          [spec, base = base](KernelRunner& runner) { CheckRowsWithoutKeys(runner, spec, base); });
    }
  }
  return cases;
}

}  // namespace attnd::testing
