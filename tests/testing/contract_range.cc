// Finished scores may be anything that float32 holds, and a softcap any positive number. No change
// of units may turn a score into an infinity.
//
// The standard un-fused computation is no measure here: in a 16-bit type it cannot hold such scores
// itself. Each case has a twin instead, an ordinary problem with the same exact output, whose
// allowed error is used; only lse differs, and is exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/sequence_bounds.h"
#include "tests/testing/accuracy_grid.h"
#include "tests/testing/expected_result.h"

namespace attnd::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLargestFloat32 = std::numeric_limits<float>::max();
constexpr float kLargestBFloat16 = 0x1.fep127f;

// What a bias is set to, as a function of the key. Key 0 has the largest, so that every row that
// sees a key sees one of these.
using BiasOfKey = float (*)(std::int64_t key, float largest);

float LowestOrMinusInfinity(std::int64_t key, float largest) {
  return key % 4 == 3 ? -kInfinity : -largest;
}
float LargestOrLowest(std::int64_t key, float largest) { return key % 2 == 0 ? largest : -largest; }

void SetQueryRow(Problem& problem, std::int64_t b, std::int64_t row, std::int64_t head,
                 float value) {
  for (std::int64_t d = 0; d < problem.spec().head_dim; ++d) {
    problem.SetQ(b, row, head, d, value);
  }
}

void SetKeyRow(Problem& problem, std::int64_t key, float value) {
  for (std::int64_t d = 0; d < problem.spec().head_dim; ++d) problem.SetK(0, key, 0, d, value);
}

// The place of (b, head, row) in ExpectedResult::lse.
std::int64_t LsePlace(const AttentionParams& p, std::int64_t b, std::int64_t head,
                      std::int64_t row) {
  return (b * p.num_heads + head) * p.seqlen_q + row;
}

// Calls visit(b, head, row) for every query row that is in use.
template <typename Visit>
void ForEachRow(const AttentionParams& p, Visit visit) {
  for (std::int64_t b = 0; b < p.batch_size; ++b) {
    for (std::int64_t i = 0; i < p.num_heads * BoundsOf(p, b).seqlen_q; ++i) {
      visit(b, i % p.num_heads, i / p.num_heads);
    }
  }
}

// Every third row gets a bias beside whose largest value q.k vanishes: it attends to the keys that
// have it alike, as its twin does whose scores are 0 there and -inf elsewhere.
void CheckBias(KernelRunner& runner, const ProblemSpec& spec, BiasOfKey bias_of_key) {
  const float largest = spec.bias_dtype == DataType::kBFloat16 ? kLargestBFloat16 : kLargestFloat32;
  const float of_key_0 = bias_of_key(0, largest);
  Problem problem(spec);
  if (!runner.Supports(problem.params()).ok()) GTEST_SKIP();
  Problem twin(spec);
  const AttentionParams& p = problem.params();
  ForEachRow(p, [&](std::int64_t b, std::int64_t head, std::int64_t row) {
    if (row % 3 != 0) return;
    SetQueryRow(twin, b, row, head, 0.0f);
    for (std::int64_t key = 0; key < BoundsOf(p, b).seqlen_k; ++key) {
      const float bias = bias_of_key(key, largest);
      problem.SetBias(b, head, row, key, bias);
      twin.SetBias(b, head, row, key, bias == of_key_0 ? 0.0f : -kInfinity);
    }
  });
  ExpectedResult expected = ComputeExpected(twin);
  ForEachRow(p, [&](std::int64_t b, std::int64_t head, std::int64_t row) {
    double& lse = expected.lse[LsePlace(p, b, head, row)];
    if (row % 3 == 0 && lse != -kInfinity) lse = of_key_0;
  });
  if (!RunOrSkip(runner, problem)) return;
  EXPECT_TRUE(ResultsMatch(problem, expected));
}

// The lowest float in some columns of every row weighs as little as -inf in others.
void CheckMaskedColumns(KernelRunner& runner, const ProblemSpec& spec) {
  const float largest = spec.bias_dtype == DataType::kBFloat16 ? kLargestBFloat16 : kLargestFloat32;
  Problem problem(spec);
  if (!runner.Supports(problem.params()).ok()) GTEST_SKIP();
  Problem twin(spec);
  ForEachRow(problem.params(), [&](std::int64_t b, std::int64_t head, std::int64_t row) {
    for (std::int64_t key = 1; key < BoundsOf(problem.params(), b).seqlen_k; ++key) {
      if (key % 4 == 0) continue;
      problem.SetBias(b, head, row, key, key % 4 == 1 ? -kInfinity : -largest);
      twin.SetBias(b, head, row, key, -kInfinity);
    }
  });
  if (!RunOrSkip(runner, problem)) return;
  EXPECT_TRUE(ResultsMatch(problem, ComputeExpected(twin)));
}

// Sequences of one length, under a causal mask, of several lengths, and packed; each with a bias of
// float32 and, for bfloat16, of its own type.
std::vector<ProblemSpec> BiasedSpecs() {
  ProblemSpec causal = Spec("Causal", 150, 140);
  causal.num_heads = 2;
  causal.causal = true;
  ProblemSpec wide = Spec("Wide", 70, 400);
  wide.head_dim = 128;
  std::vector<ProblemSpec> specs;
  for (ProblemSpec spec :
       {Spec("Dense", 70, 150), wide, causal, PaddedSpec("Padded"), PackedSpec("Packed")}) {
    spec.bias = ScoreArray::kFull;
    for (DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
      spec.dtype = dtype;
      spec.bias_dtype = DataType::kFloat32;
      specs.push_back(spec);
      specs.back().name = absl::StrCat(spec.name, "_", std::string(NameOf(dtype)));
    }
    spec.bias_dtype = DataType::kBFloat16;
    spec.name += "_bias_of_bfloat16";
    specs.push_back(spec);
  }
  return specs;
}

void AddBiases(std::vector<ContractCase>& cases) {
  for (const ProblemSpec& spec : BiasedSpecs()) {
    cases.push_back({absl::StrCat("LowestFloatMasksColumns_", spec.name),
                     [spec](KernelRunner& runner) { CheckMaskedColumns(runner, spec); }});
    cases.push_back(
        {absl::StrCat("LowestFloatOnAllKeysMasksNone_", spec.name),
         [spec](KernelRunner& runner) { CheckBias(runner, spec, LowestOrMinusInfinity); }});
    cases.push_back({absl::StrCat("LargestFloatTakesTheRow_", spec.name),
                     [spec](KernelRunner& runner) { CheckBias(runner, spec, LargestOrLowest); }});
  }
}

// Sinks of the largest and the lowest float: the first takes all of its head's rows, the second is
// noticed by rows without keys alone.
void CheckSinks(KernelRunner& runner, ProblemSpec spec) {
  spec.sinks = true;
  Problem problem(spec);
  Problem twin(spec);
  const AttentionParams& p = problem.params();
  problem.SetSink(0, kLargestFloat32);
  problem.SetSink(1, -kLargestFloat32);
  twin.SetSink(0, -kInfinity);
  twin.SetSink(1, -kInfinity);
  ExpectedResult expected = ComputeExpected(twin);
  ForEachRow(p, [&](std::int64_t b, std::int64_t head, std::int64_t row) {
    double& lse = expected.lse[LsePlace(p, b, head, row)];
    if (head == 1) {
      if (lse == -kInfinity) lse = -kLargestFloat32;
      return;
    }
    lse = kLargestFloat32;
    const std::int64_t out = ((b * p.seqlen_q + row) * p.num_heads + head) * p.head_dim_v;
    std::fill_n(expected.out.begin() + out, p.head_dim_v, 0.0);
  });
  if (!RunOrSkip(runner, problem)) return;
  EXPECT_TRUE(ResultsMatch(problem, expected));
}

// Scores of 3.2e38 and of half that, by a scale that alone is no option: rows attend to the even
// keys alike.
void CheckScale(KernelRunner& runner, ProblemSpec spec) {
  constexpr float kScale = 2e37f;
  spec.distribution = Distribution::kConstant;
  ProblemSpec twin_spec = spec;
  twin_spec.bias = ScoreArray::kColumnsOnly;
  spec.softmax_scale = kScale;
  Problem problem(spec);
  Problem twin(twin_spec);
  for (std::int64_t key = 0; key < spec.seqlen_k; ++key) {
    for (std::int64_t d = 0; d < spec.head_dim; ++d) {
      const float value = static_cast<float>((7 * key + 3 * d) % 11) - 5.0f;
      problem.SetV(0, key, 0, d, value);
      twin.SetV(0, key, 0, d, value);
    }
    twin.SetBias(0, 0, 0, key, key % 2 == 0 ? 0.0f : -kInfinity);
    if (key % 2 == 1) SetKeyRow(problem, key, 0.25f);
  }
  ExpectedResult expected = ComputeExpected(twin);
  for (double& lse : expected.lse) lse = kScale * 0.25 * static_cast<double>(spec.head_dim);
  if (!RunOrSkip(runner, problem)) return;
  EXPECT_TRUE(ResultsMatch(problem, expected));
}

// Raw products that are scaled inside the exponent, not far below the scores at which
// docs/numerics.md calls that inexact: one key has 8 more than all others, whose common score of
// 1e8 is the maximum of some blocks and not of others. In units of log2 both maxima are rounded to
// multiples of 16, one up by 2 and one by 7: an implementation that rounds one of them differently
// in two places is off by such powers of 2.
void CheckRawScores(KernelRunner& runner, ProblemSpec spec) {
  constexpr float kScale = 16.0f;
  constexpr float kTopLead = 8.0f;
  constexpr std::int64_t kTopKey = 200;
  const float of_key = 394.0f * 64.0f / static_cast<float>(spec.head_dim);
  const double score = kScale * static_cast<double>(spec.head_dim - 1) * 256.0 * of_key;
  ProblemSpec twin_spec = spec;
  twin_spec.bias = ScoreArray::kColumnsOnly;
  spec.softmax_scale = kScale;
  Problem problem(spec);
  Problem twin(twin_spec);
  RandomValues values(spec.seed, Distribution::kUniform);
  for (std::int64_t row = 0; row < spec.seqlen_q; ++row) {
    SetQueryRow(problem, 0, row, 0, 256.0f);
    problem.SetQ(0, row, 0, 0, kTopLead / kScale);
    SetQueryRow(twin, 0, row, 0, 0.0f);
  }
  for (std::int64_t key = 0; key < spec.seqlen_k; ++key) {
    const bool top = key == kTopKey;
    SetKeyRow(problem, key, of_key);
    problem.SetK(0, key, 0, 0, top ? 1.0f : 0.0f);
    twin.SetBias(0, 0, 0, key, top ? kTopLead : 0.0f);
    for (std::int64_t d = 0; d < spec.head_dim; ++d) {
      const float value = values.Next();
      problem.SetV(0, key, 0, d, value);
      twin.SetV(0, key, 0, d, value);
    }
  }
  ExpectedResult expected = ComputeExpected(twin);
  for (double& lse : expected.lse) lse += score;
  expected.allowed_lse = 8.0;  // a unit in the last place of a float32 of this size
  if (!RunOrSkip(runner, problem)) return;
  EXPECT_TRUE(ResultsMatch(problem, expected));
}

// A slope that takes the only key that a mask leaves to -2.4e38 and further.
void CheckAlibi(KernelRunner& runner, ProblemSpec spec) {
  constexpr float kSlope = 0x1p120f;
  spec.mask = ScoreArray::kColumnsOnly;
  Problem twin(spec);
  spec.alibi = Slopes::kPerHead;
  Problem problem(spec);
  problem.SetAlibiSlope(0, kSlope);
  for (std::int64_t key = 0; key < spec.seqlen_k; ++key) {
    problem.SetMask(0, 0, 0, key, key == 0);
    twin.SetMask(0, 0, 0, key, key == 0);
  }
  ExpectedResult expected = ComputeExpected(twin);
  for (std::int64_t row = 0; row < spec.seqlen_q; ++row) {
    expected.lse[row] = -kSlope * static_cast<double>(row + spec.seqlen_k - spec.seqlen_q);
  }
  if (!RunOrSkip(runner, problem)) return;
  EXPECT_TRUE(ResultsMatch(problem, expected));
}

// Rows of which most lie before the first key. Each attends to one key: the nearest, or under a
// negative slope the farthest.
void CheckAlibiFarFromAllKeys(KernelRunner& runner, ProblemSpec spec, float slope) {
  ProblemSpec twin_spec = spec;
  twin_spec.mask = ScoreArray::kFull;
  spec.alibi = Slopes::kPerHead;
  Problem problem(spec);
  Problem twin(twin_spec);
  problem.SetAlibiSlope(0, slope);
  const auto position = [&](std::int64_t row) { return row + spec.seqlen_k - spec.seqlen_q; };
  const auto key_of = [&](std::int64_t row) {
    const std::int64_t nearest = std::max<std::int64_t>(position(row), 0);
    const bool to_the_right = 2 * position(row) < spec.seqlen_k - 1;
    return slope > 0.0f ? nearest : to_the_right ? spec.seqlen_k - 1 : 0;
  };
  for (std::int64_t row = 0; row < spec.seqlen_q; ++row) {
    for (std::int64_t key = 0; key < spec.seqlen_k; ++key) {
      twin.SetMask(0, 0, row, key, key == key_of(row));
    }
  }
  ExpectedResult expected = ComputeExpected(twin);
  for (std::int64_t row = 0; row < spec.seqlen_q; ++row) {
    const double distance = static_cast<double>(std::abs(position(row) - key_of(row)));
    expected.lse[row] -= static_cast<double>(slope) * distance;
    expected.allowed_lse = std::max(expected.allowed_lse, std::abs(expected.lse[row]) * 0x1p-22);
  }
  // The twin's one weight is 1 and its outputs are values, which no type rounds. A kernel that
  // comes to a weight near 1 rounds it to a 16-bit type, and the result after it.
  if (spec.dtype != DataType::kFloat32) expected.allowed_out *= 2.0;
  if (!RunOrSkip(runner, problem)) return;
  EXPECT_TRUE(ResultsMatch(problem, expected));
}

// Slopes that the Hopper kernel takes off products key by key, and as steps from one to the next.
void AddAlibiFarFromAllKeys(std::vector<ContractCase>& cases, DataType dtype) {
  for (int head_dim : {64, 128, 256}) {
    ProblemSpec spec = Spec("", 300, 100);
    spec.dtype = dtype;
    spec.head_dim = head_dim;
    spec.amplitude = 0.25f;
    for (const auto& [name, scale, slope] :
         {std::tuple("SlopeOf64", 0.1f, 64.0f), std::tuple("SlopeOfMinus64", 0.1f, -64.0f),
          std::tuple("SlopeOf1e9", 0.1f, 1e9f), std::tuple("GentleSlope", 4.0f, 64.0f),
          std::tuple("GentleSlopeBelowZero", 4.0f, -64.0f)}) {
      spec.softmax_scale = scale;
      cases.push_back(
          {absl::StrCat("AlibiFarFromAllKeys_", name, "_head_dim_", head_dim, "_",
                        std::string(NameOf(dtype))),
           [spec, slope](KernelRunner& runner) { CheckAlibiFarFromAllKeys(runner, spec, slope); }});
    }
  }
}

void AddOtherSources(std::vector<ContractCase>& cases) {
  for (DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    const std::string suffix = absl::StrCat("_", std::string(NameOf(dtype)));
    ProblemSpec causal = Spec("", 150, 70);  // rows without keys among them
    causal.dtype = dtype;
    causal.num_heads = 2;
    causal.causal = true;
    ProblemSpec biased = causal;
    biased.bias = ScoreArray::kPerRow;
    cases.push_back({absl::StrCat("SinksOfTheLargestAndLowestFloat", suffix),
                     [causal](KernelRunner& runner) { CheckSinks(runner, causal); }});
    cases.push_back({absl::StrCat("SinksOfTheLargestAndLowestFloatWithBias", suffix),
                     [biased](KernelRunner& runner) { CheckSinks(runner, biased); }});
    ProblemSpec one_head = Spec("", 70, 250);
    one_head.dtype = dtype;
    cases.push_back({absl::StrCat("ScaleOf2e37", suffix),
                     [one_head](KernelRunner& runner) { CheckScale(runner, one_head); }});
    ProblemSpec four_blocks = Spec("", 70, 400);
    four_blocks.dtype = dtype;
    cases.push_back({absl::StrCat("RawScoresOf1e8", suffix),
                     [four_blocks](KernelRunner& runner) { CheckRawScores(runner, four_blocks); }});
    four_blocks.head_dim = 128;
    cases.push_back({absl::StrCat("RawScoresOf1e8_head_dim_128", suffix),
                     [four_blocks](KernelRunner& runner) { CheckRawScores(runner, four_blocks); }});
    cases.push_back({absl::StrCat("AlibiSlopeOf2To120", suffix),
                     [one_head](KernelRunner& runner) { CheckAlibi(runner, one_head); }});
    AddAlibiFarFromAllKeys(cases, dtype);
  }
}

// From a cap whose inverse is an infinity to one beside which scores vanish.
void AddSoftcaps(AccuracyGrid& grid) {
  for (float softcap : {1e-42f, 1e-30f, 1e-3f, 1e6f, 1e30f}) {
    ProblemSpec spec = Spec(absl::StrCat("SoftcapOf1e", std::lround(std::log10(softcap))), 70, 150);
    for (char& c : spec.name) c = c == '-' ? 'm' : c;
    spec.softcap = softcap;
    spec.amplitude = 2.0f;
    spec.causal = true;
    grid.AddInAllTypes(spec);
    if (softcap > 1e-38f) continue;
    spec.name += "_scores_of_zero";
    spec.softmax_scale = 0.0f;
    grid.AddInAllTypes(spec);
  }
}

}  // namespace

std::vector<ContractCase> RangeCases() {
  AccuracyGrid grid;
  AddSoftcaps(grid);
  std::vector<ContractCase> cases = grid.Take();
  AddBiases(cases);
  AddOtherSources(cases);
  return cases;
}

}  // namespace attnd::testing
