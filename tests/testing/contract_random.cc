// Accuracy of problems drawn at random from everything that may be asked for: combinations that
// nobody thought of.
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/testing/accuracy_grid.h"

namespace attnd::testing {
namespace {

constexpr int kNumProblems = 60;
constexpr std::int64_t kLongest = 150;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : generator_(seed) {}

  // From `first` to `last`, both included.
  std::int64_t Between(std::int64_t first, std::int64_t last) {
    return first + static_cast<std::int64_t>(generator_() % (last - first + 1));
  }
  bool OneIn(int n) { return Between(1, n) == 1; }
  std::vector<std::int32_t> Lengths(std::int64_t count, std::int64_t longest) {
    std::vector<std::int32_t> lengths(count);
    for (std::int32_t& length : lengths) {
      length = static_cast<std::int32_t>(OneIn(6) ? 0 : Between(0, longest));
    }
    return lengths;
  }

 private:
  std::mt19937_64 generator_;
};

void DrawShape(Draw& draw, ProblemSpec& spec) {
  spec.batch_size = draw.Between(1, 3);
  spec.seqlen_q = draw.OneIn(4) ? draw.Between(1, 4) : draw.Between(1, kLongest);
  spec.seqlen_k = draw.Between(1, kLongest);
  spec.num_kv_heads = draw.Between(1, 2);
  spec.num_heads = spec.num_kv_heads * draw.Between(1, 4);
  spec.head_dim = 8 * (draw.OneIn(4) ? draw.Between(1, 32) : draw.Between(1, 10));
  spec.head_dim_v = draw.OneIn(3) ? 8 * draw.Between(1, 16) : 0;
  spec.layout = static_cast<Layout>(draw.Between(0, 2));
  spec.slack = 8 * draw.Between(0, 1);
  if (spec.layout == Layout::kPacked) {
    spec.rooms_q = draw.Lengths(spec.batch_size, spec.seqlen_q);
    spec.rooms_k = draw.Lengths(spec.batch_size, spec.seqlen_k);
    spec.rooms_q.front() = static_cast<std::int32_t>(spec.seqlen_q);  // the longest one
    spec.rooms_k.back() = static_cast<std::int32_t>(spec.seqlen_k);
  } else if (draw.OneIn(2)) {
    spec.lengths_q = draw.Lengths(spec.batch_size, spec.seqlen_q);
    spec.lengths_k = draw.Lengths(spec.batch_size, spec.seqlen_k);
  }
}

void DrawOptions(Draw& draw, ProblemSpec& spec) {
  spec.causal = draw.OneIn(2);
  if (draw.OneIn(3)) spec.window_left = draw.Between(0, kLongest);
  if (!spec.causal && draw.OneIn(3)) spec.window_right = draw.Between(0, kLongest);
  if (draw.OneIn(4)) spec.softcap = 0.5f * static_cast<float>(draw.Between(1, 20));
  if (draw.OneIn(3)) spec.mask = static_cast<ScoreArray>(draw.Between(1, 5));
  if (draw.OneIn(3)) spec.bias = static_cast<ScoreArray>(draw.Between(1, 5));
  spec.mask_empty_rows = draw.OneIn(2);
  spec.bias_minus_infinity = draw.OneIn(2);
  if (draw.OneIn(4)) spec.alibi = static_cast<Slopes>(draw.Between(1, 2));
  spec.sinks = draw.OneIn(4);
  if (draw.OneIn(3)) spec.out_dtype = DataType::kFloat32;
  spec.distribution = static_cast<Distribution>(draw.Between(0, 2));
}

}  // namespace

std::vector<ContractCase> RandomCases() {
  AccuracyGrid grid;
  for (int i = 0; i < kNumProblems; ++i) {
    Draw draw(1000 + i);
    ProblemSpec spec;
    spec.name = absl::StrCat("Random_", i);
    spec.seed = i;
    DrawShape(draw, spec);
    DrawOptions(draw, spec);
    grid.AddInTurn(spec);
  }
  return grid.Take();
}

}  // namespace attnd::testing
