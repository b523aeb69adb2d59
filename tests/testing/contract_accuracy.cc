// Problems that every implementation must compute within the error that the numerics contract
// allows.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/testing/contract_cases.h"
#include "tests/testing/expected_result.h"

namespace attnd::testing {
namespace {

constexpr std::array kTypes = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};

std::string TypeName(DataType dtype) { return std::string(NameOf(dtype)); }

ContractCase AccuracyCase(const ProblemSpec& spec) {
  auto expected = std::make_shared<std::optional<ExpectedResult>>();
  return {spec.name, [spec, expected](KernelRunner& runner) {
            Problem problem(spec);
            if (!RunOrSkip(runner, problem)) return;
            if (!expected->has_value()) *expected = ComputeExpected(problem);
            EXPECT_TRUE(ResultsMatch(problem, **expected));
          }};
}

// A grid under construction. Types take turns where a case does not name one, so that all of them
// meet most shapes at a third of the cost.
class Grid {
 public:
  void Add(ProblemSpec spec) { cases_.push_back(AccuracyCase(spec)); }
  void AddInTurn(ProblemSpec spec) {
    spec.dtype = kTypes[turn_++ % kTypes.size()];
    absl::StrAppend(&spec.name, "_", TypeName(spec.dtype));
    Add(std::move(spec));
  }
  void AddInAllTypes(const ProblemSpec& spec) {
    for (DataType dtype : kTypes) {
      ProblemSpec typed = spec;
      typed.dtype = dtype;
      absl::StrAppend(&typed.name, "_", TypeName(dtype));
      Add(std::move(typed));
    }
  }
  std::vector<ContractCase> Take() { return std::move(cases_); }

 private:
  std::vector<ContractCase> cases_;
  std::size_t turn_ = 0;
};

ProblemSpec Spec(std::string name, std::int64_t seqlen_q, std::int64_t seqlen_k) {
  ProblemSpec spec;
  spec.name = std::move(name);
  spec.seqlen_q = seqlen_q;
  spec.seqlen_k = seqlen_k;
  return spec;
}

void AddLengths(Grid& grid) {
  constexpr std::pair<int, int> kLengths[] = {
      {0, 0},     {0, 5},     {5, 0},     {1, 1},     {1, 2},     {2, 1},     {1, 63},
      {1, 64},    {1, 65},    {1, 127},   {1, 128},   {1, 129},   {1, 1023},  {1, 1024},
      {1, 1025},  {3, 17},    {15, 15},   {16, 16},   {17, 17},   {31, 33},   {63, 63},
      {64, 64},   {65, 65},   {127, 127}, {128, 128}, {129, 129}, {113, 203}, {64, 256},
      {256, 113}, {17, 1023}, {16, 1024}, {15, 1025}, {1025, 31}, {1024, 5},  {129, 1},
      {300, 100}, {128, 64},  {65, 2},    {64, 65},   {65, 64}};
  for (const auto& [q, k] : kLengths) {
    for (bool causal : {false, true}) {
      ProblemSpec spec = Spec(absl::StrCat("Lengths_", q, "_", k, causal ? "_causal" : ""), q, k);
      spec.causal = causal;
      spec.num_heads = 2;
      grid.AddInTurn(spec);
    }
  }
  ProblemSpec square = Spec("Lengths_193_193_causal", 193, 193);
  square.causal = true;
  grid.AddInAllTypes(square);
  ProblemSpec no_sequences = Spec("NoSequences", 4, 4);
  no_sequences.batch_size = 0;
  grid.AddInAllTypes(no_sequences);
  for (const auto& [q, k] : {std::pair{0, 6}, std::pair{6, 0}}) {
    ProblemSpec batched = Spec(absl::StrCat("Lengths_", q, "_", k, "_of_three"), q, k);
    batched.batch_size = 3;
    batched.num_heads = 2;
    grid.AddInAllTypes(batched);
  }
}

void AddHeads(Grid& grid) {
  constexpr std::pair<int, int> kHeads[] = {{1, 1}, {3, 3}, {4, 1},  {8, 2},
                                            {7, 1}, {8, 1}, {14, 2}, {16, 2}};
  for (const auto& [heads, kv_heads] : kHeads) {
    for (int seqlen_q : {1, 33}) {
      ProblemSpec spec =
          Spec(absl::StrCat("Heads_", heads, "_", kv_heads, "_rows_", seqlen_q), seqlen_q, 70);
      spec.num_heads = heads;
      spec.num_kv_heads = kv_heads;
      spec.causal = true;
      grid.AddInTurn(spec);
    }
  }
}

void AddHeadDims(Grid& grid) {
  for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
    ProblemSpec spec = Spec(absl::StrCat("HeadDim_", head_dim), 19, 77);
    spec.head_dim = head_dim;
    grid.AddInTurn(spec);
  }
  for (int head_dim : {40, 72, 96, 128, 192, 256}) {
    ProblemSpec spec = Spec(absl::StrCat("HeadDimCausal_", head_dim), 66, 66);
    spec.head_dim = head_dim;
    spec.causal = true;
    grid.AddInAllTypes(spec);
  }
  constexpr std::pair<int, int> kWidths[] = {{64, 128}, {128, 64}, {192, 128}, {40, 72},
                                             {256, 8},  {8, 256},  {96, 160},  {24, 104}};
  for (const auto& [head_dim, head_dim_v] : kWidths) {
    ProblemSpec spec = Spec(absl::StrCat("HeadDimV_", head_dim, "_", head_dim_v), 21, 68);
    spec.head_dim = head_dim;
    spec.head_dim_v = head_dim_v;
    spec.num_heads = 2;
    grid.AddInTurn(spec);
  }
}

void AddLayouts(Grid& grid) {
  constexpr std::pair<Layout, const char*> kLayouts[] = {
      {Layout::kBshd, "bshd"}, {Layout::kBhsd, "bhsd"}, {Layout::kPacked, "packed"}};
  for (const auto& [layout, name] : kLayouts) {
    for (int slack : {0, 8}) {
      ProblemSpec spec = Spec(absl::StrCat("Layout_", name, "_slack_", slack), 37, 69);
      spec.batch_size = 3;
      spec.num_heads = 4;
      spec.num_kv_heads = 2;
      spec.layout = layout;
      spec.slack = slack;
      spec.causal = true;
      grid.AddInAllTypes(spec);
    }
  }
}

ProblemSpec PackedSpec(std::string name) {
  ProblemSpec spec = Spec(std::move(name), 130, 129);
  spec.batch_size = 6;
  spec.num_heads = 2;
  spec.layout = Layout::kPacked;
  spec.rooms_q = {0, 1, 64, 65, 5, 130};
  spec.rooms_k = {5, 33, 64, 129, 0, 77};
  return spec;
}

ProblemSpec PaddedSpec(std::string name) {
  ProblemSpec spec = Spec(std::move(name), 70, 80);
  spec.batch_size = 5;
  spec.num_heads = 2;
  spec.lengths_q = {70, 0, 1, 65, 33};
  spec.lengths_k = {80, 7, 64, 0, 1};
  return spec;
}

void AddVariableLengths(Grid& grid) {
  for (bool causal : {false, true}) {
    const char* suffix = causal ? "_causal" : "";
    ProblemSpec packed = PackedSpec(absl::StrCat("Packed", suffix));
    packed.causal = causal;
    grid.AddInAllTypes(packed);

    ProblemSpec shortened = PackedSpec(absl::StrCat("PackedWithLengths", suffix));
    shortened.causal = causal;
    shortened.lengths_q = {0, 0, 63, 65, 3, 100};
    shortened.lengths_k = {5, 0, 64, 128, 0, 1};
    shortened.slack = 8;
    grid.AddInAllTypes(shortened);

    ProblemSpec padded = PaddedSpec(absl::StrCat("PaddedLengths", suffix));
    padded.causal = causal;
    padded.slack = 8;
    grid.AddInAllTypes(padded);
  }
  ProblemSpec loose = PackedSpec("PackedWithLooseBounds");
  loose.seqlen_q = 190;
  loose.seqlen_k = 200;
  grid.AddInTurn(loose);
  ProblemSpec keys_only = PaddedSpec("PaddedKeysOnly");
  keys_only.lengths_q.clear();
  grid.AddInTurn(keys_only);
}

void AddWindows(Grid& grid) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  constexpr std::pair<std::int64_t, std::int64_t> kWindows[] = {
      {0, 0},    {0, -1},  {-1, 0},  {5, 3},         {64, 64},  {32, 64},
      {127, -1}, {-1, 63}, {3, 200}, {kHuge, kHuge}, {kHuge, 0}};
  constexpr std::pair<int, int> kLengths[] = {{129, 129}, {129, 70}, {40, 200}};
  for (const auto& [left, right] : kWindows) {
    for (const auto& [q, k] : kLengths) {
      ProblemSpec spec =
          Spec(absl::StrCat("Window_", left < 0 ? "open" : absl::StrCat(left), "_",
                            right < 0 ? "open" : absl::StrCat(right), "_lengths_", q, "_", k),
               q, k);
      spec.window_left = left;
      spec.window_right = right;
      grid.AddInTurn(spec);
    }
  }
  for (std::int64_t left : {std::int64_t{0}, std::int64_t{63}, std::int64_t{64}, kHuge}) {
    ProblemSpec spec = Spec(absl::StrCat("CausalWindow_", left), 140, 150);
    spec.causal = true;
    spec.window_left = left;
    grid.AddInTurn(spec);
  }
}

ProblemSpec OptionSpec(std::string name) {
  ProblemSpec spec = Spec(std::move(name), 67, 131);
  spec.batch_size = 2;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 32;
  return spec;
}

void AddScoreArrays(Grid& grid) {
  constexpr std::pair<ScoreArray, const char*> kArrays[] = {
      {ScoreArray::kFull, "full"},
      {ScoreArray::kPerBatch, "per_batch"},
      {ScoreArray::kPerHead, "per_head"},
      {ScoreArray::kPerRow, "per_row"},
      {ScoreArray::kColumnsOnly, "columns_only"}};
  for (const auto& [array, name] : kArrays) {
    ProblemSpec mask = OptionSpec(absl::StrCat("Mask_", name));
    mask.mask = array;
    mask.mask_empty_rows = true;
    grid.AddInTurn(mask);
    ProblemSpec bias = OptionSpec(absl::StrCat("Bias_", name));
    bias.bias = array;
    bias.bias_minus_infinity = true;
    grid.AddInTurn(bias);
  }
  ProblemSpec wide = OptionSpec("BiasOfFloat32");
  wide.bias = ScoreArray::kPerHead;
  wide.bias_dtype = DataType::kFloat32;
  grid.AddInAllTypes(wide);
}

void AddScalarOptions(Grid& grid) {
  for (bool causal : {false, true}) {
    const char* suffix = causal ? "_causal" : "";
    const auto option = [&](const char* name) {
      ProblemSpec spec = OptionSpec(absl::StrCat(name, suffix));
      spec.causal = causal;
      return spec;
    };
    ProblemSpec scale_zero = option("ScaleZero");
    scale_zero.softmax_scale = 0.0f;
    grid.AddInTurn(scale_zero);
    ProblemSpec scale_negative = option("ScaleNegative");
    scale_negative.softmax_scale = -0.3f;
    grid.AddInTurn(scale_negative);
    ProblemSpec softcap = option("Softcap");
    softcap.softcap = 3.0f;
    softcap.amplitude = 2.0f;
    grid.AddInAllTypes(softcap);
    ProblemSpec slopes = option("Alibi");
    slopes.alibi = Slopes::kPerHead;
    grid.AddInTurn(slopes);
    ProblemSpec batch_slopes = option("AlibiPerBatch");
    batch_slopes.alibi = Slopes::kPerBatchAndHead;
    batch_slopes.seqlen_q = 140;
    grid.AddInTurn(batch_slopes);
    ProblemSpec sinks = option("Sinks");
    sinks.sinks = true;
    grid.AddInTurn(sinks);
  }
  ProblemSpec sinks_of_empty_rows = OptionSpec("SinksOfRowsWithNothing");
  sinks_of_empty_rows.sinks = true;
  sinks_of_empty_rows.causal = true;
  sinks_of_empty_rows.seqlen_q = 150;
  sinks_of_empty_rows.seqlen_k = 20;
  grid.AddInAllTypes(sinks_of_empty_rows);
}

ProblemSpec WithAllOptions(ProblemSpec spec) {
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 40;
  spec.head_dim_v = 24;
  spec.softcap = 5.0f;
  spec.window_left = 50;
  spec.window_right = 9;
  spec.mask = ScoreArray::kFull;
  spec.mask_empty_rows = true;
  spec.bias = ScoreArray::kFull;
  spec.bias_minus_infinity = true;
  spec.alibi = Slopes::kPerBatchAndHead;
  spec.sinks = true;
  return spec;
}

void AddCombinations(Grid& grid) {
  grid.AddInAllTypes(WithAllOptions(PackedSpec("AllOptionsPacked")));
  ProblemSpec padded = WithAllOptions(PaddedSpec("AllOptionsPadded"));
  padded.layout = Layout::kBhsd;
  padded.slack = 8;
  grid.AddInAllTypes(padded);
  ProblemSpec causal = WithAllOptions(PackedSpec("AllOptionsCausal"));
  causal.causal = true;
  causal.window_right = -1;
  causal.lengths_k = {5, 30, 64, 128, 0, 1};
  grid.AddInAllTypes(causal);
}

void AddValues(Grid& grid) {
  ProblemSpec large = Spec("LargeScores", 66, 140);
  large.amplitude = 100.0f;
  grid.AddInAllTypes(large);
  ProblemSpec negative = Spec("LargeScoresNegativeScale", 66, 140);
  negative.amplitude = 100.0f;
  negative.softmax_scale = -0.125f;
  negative.causal = true;
  grid.AddInAllTypes(negative);
  ProblemSpec equal = Spec("EqualScores", 66, 140);
  equal.distribution = Distribution::kConstant;
  grid.AddInAllTypes(equal);
  ProblemSpec outliers = Spec("Outliers", 66, 140);
  outliers.distribution = Distribution::kOutliers;
  grid.AddInAllTypes(outliers);
  ProblemSpec small = Spec("SmallScores", 66, 140);
  small.distribution = Distribution::kUniform;
  small.amplitude = 0.01f;
  grid.AddInAllTypes(small);
}

void AddOutputs(Grid& grid) {
  ProblemSpec wide = Spec("OutOfFloat32", 35, 70);
  wide.out_dtype = DataType::kFloat32;
  grid.AddInAllTypes(wide);
  ProblemSpec no_lse = Spec("WithoutLse", 35, 70);
  no_lse.lse = false;
  grid.AddInTurn(no_lse);
  ProblemSpec probs = OptionSpec("Probs");
  probs.probs = true;
  grid.AddInAllTypes(probs);
  ProblemSpec all = WithAllOptions(PackedSpec("ProbsWithAllOptions"));
  all.probs = true;
  grid.AddInAllTypes(all);
  ProblemSpec padded = PaddedSpec("ProbsOfPaddedLengths");
  padded.probs = true;
  padded.causal = true;
  grid.AddInTurn(padded);
}

}  // namespace

std::vector<ContractCase> AccuracyCases() {
  Grid grid;
  AddLengths(grid);
  AddHeads(grid);
  AddHeadDims(grid);
  AddLayouts(grid);
  AddVariableLengths(grid);
  AddWindows(grid);
  AddScoreArrays(grid);
  AddScalarOptions(grid);
  AddCombinations(grid);
  AddValues(grid);
  AddOutputs(grid);
  return grid.Take();
}

}  // namespace attnd::testing
