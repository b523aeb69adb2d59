// Accuracy over lengths, heads, widths and layouts.
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/testing/accuracy_grid.h"

namespace attnd::testing {
namespace {

void AddLengths(AccuracyGrid& grid) {
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

void AddHeads(AccuracyGrid& grid) {
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

void AddHeadDims(AccuracyGrid& grid) {
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

void AddLayouts(AccuracyGrid& grid) {
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

void AddVariableLengths(AccuracyGrid& grid) {
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

}  // namespace

std::vector<ContractCase> ShapeCases() {
  AccuracyGrid grid;
  AddLengths(grid);
  AddHeads(grid);
  AddHeadDims(grid);
  AddLayouts(grid);
  AddVariableLengths(grid);
  return grid.Take();
}

}  // namespace attnd::testing
