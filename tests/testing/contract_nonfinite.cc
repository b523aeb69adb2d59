// A NaN or infinity in an input reaches the results that depend on it, and no other.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/sequence_bounds.h"
#include "tests/testing/contract_cases.h"
#include "tests/testing/expected_result.h"

namespace attnd::testing {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

ProblemSpec Spec(DataType dtype) {
  ProblemSpec spec;
  spec.batch_size = 2;
  spec.seqlen_q = 70;
  spec.seqlen_k = 150;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 32;
  spec.dtype = dtype;
  return spec;
}

// A case for each type: `describe` changes the options, `plant` the values; then the results must
// match the exact ones, NaN in the same places.
void AddForAllTypes(std::vector<ContractCase>& cases, const std::string& name,
                    const std::function<void(ProblemSpec&)>& describe,
                    const std::function<void(Problem&)>& plant) {
  for (const auto& [dtype, head_dim, suffix] :
       {std::tuple(DataType::kFloat32, 32, ""), std::tuple(DataType::kFloat16, 32, ""),
        std::tuple(DataType::kBFloat16, 32, ""),
        std::tuple(DataType::kFloat16, 128, "_head_dim_128"),
        std::tuple(DataType::kBFloat16, 128, "_head_dim_128")}) {
    ProblemSpec spec = Spec(dtype);
    spec.head_dim = head_dim;
    describe(spec);
    cases.push_back({absl::StrCat(name, "_", std::string(NameOf(dtype)), suffix),
                     [spec, plant, expected = LazyExpected()](KernelRunner& runner) mutable {
                       Problem problem(spec);
                       plant(problem);
                       if (!RunOrSkip(runner, problem)) return;
                       EXPECT_TRUE(ResultsMatch(problem, expected.Of(problem)));
                     }});
  }
}

void PlantAcrossHeadDim(Problem& problem, std::int64_t b, std::int64_t key, std::int64_t kv_head,
                        float value) {
  for (std::int64_t d = 0; d < problem.spec().head_dim; ++d) {
    problem.SetK(b, key, kv_head, d, value);
  }
}

void AddKeyCases(std::vector<ContractCase>& cases) {
  AddForAllTypes(
      cases, "NanInKeyReachesRowsThatSeeIt", [](ProblemSpec& spec) { spec.causal = true; },
      [](Problem& problem) { problem.SetK(0, 110, 1, 3, kNan); });
  AddForAllTypes(
      cases, "NanInKeyOutsideTheWindowIsHarmless",
      [](ProblemSpec& spec) { spec.window_left = spec.window_right = 4; },
      [](Problem& problem) {
        for (std::int64_t key : {0, 63, 64, 75}) PlantAcrossHeadDim(problem, 1, key, 0, kNan);
        problem.SetK(1, 100, 0, 0, kNan);
      });
  AddForAllTypes(
      cases, "NanInKeyThatAMaskForbidsIsHarmless",
      [](ProblemSpec& spec) { spec.mask = ScoreArray::kColumnsOnly; },
      [](Problem& problem) {
        for (std::int64_t key : {0, 64, 149}) {
          problem.SetMask(0, 0, 0, key, false);
          PlantAcrossHeadDim(problem, 0, key, 0, kNan);
          PlantAcrossHeadDim(problem, 1, key, 1, kInfinity);
        }
      });
  AddForAllTypes(
      cases, "NanInKeyWithSoftcap",
      [](ProblemSpec& spec) {
        spec.causal = true;
        spec.softcap = 4.0f;
      },
      [](Problem& problem) { problem.SetK(1, 120, 0, 31, kNan); });
  AddForAllTypes(
      cases, "NanInEveryKeyOfOneHead", [](ProblemSpec&) {},
      [](Problem& problem) {
        for (std::int64_t key = 0; key < 150; ++key) problem.SetK(0, key, 0, key % 32, kNan);
      });
}

void AddQueryCases(std::vector<ContractCase>& cases) {
  AddForAllTypes(
      cases, "NanInQueryReachesItsRowOnly", [](ProblemSpec&) {},
      [](Problem& problem) { problem.SetQ(1, 33, 2, 17, kNan); });
  AddForAllTypes(
      cases, "NanInQueryOfARowWithNothingIsHarmless",
      [](ProblemSpec& spec) {
        spec.causal = true;
        spec.seqlen_k = 50;
      },
      [](Problem& problem) {
        problem.SetQ(0, 3, 0, 0, kNan);
        problem.SetQ(0, 40, 0, 0, kNan);
      });
}

void AddBiasCases(std::vector<ContractCase>& cases) {
  AddForAllTypes(
      cases, "NanInBiasReachesItsRowOnly", [](ProblemSpec& spec) { spec.bias = ScoreArray::kFull; },
      [](Problem& problem) { problem.SetBias(0, 1, 20, 90, kNan); });
  AddForAllTypes(
      cases, "NanInBiasOutsideTheBandOrMaskIsHarmless",
      [](ProblemSpec& spec) {
        spec.bias = spec.mask = ScoreArray::kFull;
        spec.causal = true;
      },
      [](Problem& problem) {
        problem.SetBias(0, 1, 20, 110, kNan);  // right of the diagonal, which is at 100
        problem.SetBias(0, 1, 20, 90, kNan);
        problem.SetMask(0, 1, 20, 90, false);
      });
}

// Rows with keys, and whole tiles of rows without. A sink of NaN or +inf makes lse NaN in all of
// them, and out in the former; in the latter out is 0 or NaN. A sink of -inf is none.
void CheckNonfiniteSinks(KernelRunner& runner, const ProblemSpec& spec, LazyExpected& lazy) {
  Problem problem(spec);
  problem.SetSink(0, kNan);
  problem.SetSink(1, kInfinity);
  problem.SetSink(2, -kInfinity);
  if (!RunOrSkip(runner, problem)) return;
  ExpectedResult expected = lazy.Of(problem);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(expected.out.size()); ++i) {
    const std::int64_t head = i / spec.head_dim % spec.num_heads;
    const std::int64_t row = i / spec.head_dim / spec.num_heads % spec.seqlen_q;
    const std::int64_t b = i / spec.head_dim / spec.num_heads / spec.seqlen_q;
    const bool empty = row < spec.seqlen_q - spec.seqlen_k;
    if (head < 2 && empty && std::isnan(problem.Out(b, row, head, i % spec.head_dim)))
      expected.out[i] = kNan;
  }
  EXPECT_TRUE(ResultsMatch(problem, expected));
}

void AddSinkCases(std::vector<ContractCase>& cases) {
  for (DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    ProblemSpec spec = Spec(dtype);
    spec.seqlen_q = 450;
    spec.seqlen_k = 50;
    spec.head_dim = 64;
    spec.causal = true;
    spec.sinks = true;
    for (ScoreArray mask : {ScoreArray::kNone, ScoreArray::kPerRow}) {
      spec.mask = mask;
      cases.push_back({absl::StrCat("NonfiniteSinks", mask == ScoreArray::kNone ? "_" : "WithMask_",
                                    std::string(NameOf(dtype))),
                       [spec, expected = LazyExpected()](KernelRunner& runner) mutable {
                         CheckNonfiniteSinks(runner, spec, expected);
                       }});
    }
  }
}

// The numbers of rows of results that are not finite, and of those that must not be but are, or the
// other way round. Whether an infinite key makes NaN or infinity of a row is not part of the
// contract.
void ExpectNonfiniteInTheSameRows(Problem& problem, const ExpectedResult& expected) {
  const AttentionParams p = problem.params();
  std::int64_t nonfinite = 0;
  for (std::int64_t i = 0; i < p.batch_size * p.seqlen_q * p.num_heads; ++i) {
    const std::int64_t head = i % p.num_heads;
    const std::int64_t row = i / p.num_heads % p.seqlen_q;
    const std::int64_t b = i / p.num_heads / p.seqlen_q;
    for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
      const double exact = expected.out[i * p.head_dim_v + d];
      const float actual = problem.Out(b, row, head, d);
      nonfinite += !std::isfinite(exact);
      ASSERT_EQ(std::isfinite(exact), std::isfinite(actual))
          << "row " << row << " of sequence " << b << ", head " << head << " is " << actual
          << ", expected " << exact;
      if (std::isfinite(exact)) {
        ASSERT_NEAR(actual, exact, expected.allowed_out);
      }
    }
  }
  EXPECT_GT(nonfinite, 0);
}

void AddInfinityCases(std::vector<ContractCase>& cases) {
  for (DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    for (const auto& [value, head_dim] : {std::pair(kInfinity, 32), std::pair(-kInfinity, 32),
                                          std::pair(kInfinity, 128), std::pair(-kInfinity, 128)}) {
      ProblemSpec spec = Spec(dtype);
      spec.head_dim = head_dim;
      spec.causal = true;
      const std::string suffix =
          absl::StrCat(value > 0 ? "Plus" : "Minus", "Infinity_", std::string(NameOf(dtype)),
                       head_dim == 32 ? "" : "_head_dim_128");
      const auto add = [&](const char* where, const std::function<void(Problem&)>& plant) {
        cases.push_back({absl::StrCat(where, suffix),
                         [spec, plant, expected = LazyExpected()](KernelRunner& runner) mutable {
                           Problem problem(spec);
                           plant(problem);
                           if (!RunOrSkip(runner, problem)) return;
                           ExpectNonfiniteInTheSameRows(problem, expected.Of(problem));
                         }});
      };
      add("Key", [value = value](Problem& problem) { problem.SetK(1, 100, 1, 5, value); });
      add("Query", [value = value](Problem& problem) { problem.SetQ(1, 30, 1, 5, value); });
    }
  }
}

// A value that is not finite must reach the rows that see it, in its own column; other columns are
// exact. Other rows may get 0 * NaN from a tile that holds it.
void CheckNonfiniteValue(KernelRunner& runner, DataType dtype, LazyExpected& lazy) {
  constexpr std::int64_t kKey = 100;
  constexpr std::int64_t kColumn = 9;
  ProblemSpec spec = Spec(dtype);
  spec.causal = true;
  Problem clean(spec);
  const ExpectedResult& expected = lazy.Of(clean);
  Problem problem(spec);
  problem.SetV(0, kKey, 0, kColumn, kNan);
  if (!RunOrSkip(runner, problem)) return;
  const AttentionParams p = problem.params();
  for (std::int64_t i = 0; i < p.batch_size * p.seqlen_q * p.num_heads; ++i) {
    const std::int64_t head = i % p.num_heads;
    const std::int64_t row = i / p.num_heads % p.seqlen_q;
    const std::int64_t b = i / p.num_heads / p.seqlen_q;
    const bool same_head = b == 0 && KvHeadOf(p, head) == 0;
    const bool sees = same_head && kKey <= row + p.seqlen_k - p.seqlen_q;
    for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
      const float actual = problem.Out(b, row, head, d);
      if (same_head && d == kColumn) {
        if (sees) {
          ASSERT_TRUE(std::isnan(actual)) << "row " << row << ", head " << head;
        }
      } else {
        ASSERT_NEAR(actual, expected.out[i * p.head_dim_v + d], expected.allowed_out)
            << "row " << row << ", head " << head << ", column " << d;
      }
    }
  }
}

}  // namespace

std::vector<ContractCase> NonfiniteCases() {
  std::vector<ContractCase> cases;
  AddKeyCases(cases);
  AddQueryCases(cases);
  AddBiasCases(cases);
  AddSinkCases(cases);
  AddInfinityCases(cases);
  for (DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    cases.push_back({absl::StrCat("NanInValueReachesRowsThatSeeIt_", std::string(NameOf(dtype))),
                     [dtype, expected = LazyExpected()](KernelRunner& runner) mutable {
                       CheckNonfiniteValue(runner, dtype, expected);
                     }});
  }
  return cases;
}

}  // namespace attnd::testing
