// Accuracy over masks, biases and other options, values and outputs.
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/testing/accuracy_grid.h"

namespace attnd::testing {
namespace {

void AddWindows(AccuracyGrid& grid) {
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

void AddScoreArrays(AccuracyGrid& grid) {
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
    ProblemSpec squares = OptionSpec(absl::StrCat("MaskOfSquares_", name));
    squares.seqlen_k = 700;
    squares.mask = array;
    squares.mask_square = 90;
    grid.AddInTurn(squares);
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

void AddScalarOptions(AccuracyGrid& grid) {
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

void AddCombinations(AccuracyGrid& grid) {
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

void AddValues(AccuracyGrid& grid) {
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

void AddOutputs(AccuracyGrid& grid) {
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

std::vector<ContractCase> OptionCases() {
  AccuracyGrid grid;
  AddWindows(grid);
  AddScoreArrays(grid);
  AddScalarOptions(grid);
  AddCombinations(grid);
  AddValues(grid);
  AddOutputs(grid);
  return grid.Take();
}

}  // namespace attnd::testing
