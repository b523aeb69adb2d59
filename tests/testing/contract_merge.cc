// Attention over disjoint parts of the keys, merged by lse, is attention over all of them.
#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/testing/contract_cases.h"
#include "tests/testing/expected_result.h"

namespace attnd::testing {
namespace {

ProblemSpec WholeSpec(DataType dtype) {
  ProblemSpec spec;
  spec.seqlen_q = 20;
  spec.seqlen_k = 200;
  spec.num_heads = 1;
  spec.dtype = dtype;
  spec.out_dtype = DataType::kFloat32;
  return spec;
}

// Keys [begin, end) of the whole problem, selected by a mask; none if begin == end.
struct Part {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

void CheckParts(KernelRunner& runner, DataType dtype, const std::vector<Part>& parts,
                LazyExpected& lazy) {
  Problem whole(WholeSpec(dtype));
  const ExpectedResult& expected = lazy.Of(whole);
  ProblemSpec part_spec = WholeSpec(dtype);
  part_spec.mask = ScoreArray::kColumnsOnly;
  std::vector<float> outs;
  std::vector<float> lses;
  for (const Part& keys : parts) {
    Problem part(part_spec);
    for (std::int64_t j = 0; j < part_spec.seqlen_k; ++j) {
      part.SetMask(0, 0, 0, j, j >= keys.begin && j < keys.end);
    }
    if (!RunOrSkip(runner, part)) return;
    for (std::int64_t row = 0; row < part_spec.seqlen_q; ++row) {
      lses.push_back(part.Lse(0, 0, row));
      for (std::int64_t d = 0; d < part_spec.head_dim; ++d) outs.push_back(part.Out(0, row, 0, d));
    }
  }

  const AttentionParams p = whole.params();
  MergeParams merge;
  merge.num_parts = static_cast<std::int64_t>(parts.size());
  merge.rows = part_spec.seqlen_q;
  merge.dim = part_spec.head_dim;
  merge.out_parts = outs.data();
  merge.lse_parts = lses.data();
  merge.out = p.out.data;
  merge.lse = p.lse;
  const absl::Status status = runner.RunMerge(merge);
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_TRUE(ResultsMatch(whole, expected));
}

}  // namespace

std::vector<ContractCase> MergeCases() {
  const std::pair<const char*, std::vector<Part>> kSplits[] = {
      {"OnePart", {{0, 200}}},
      {"TwoParts", {{0, 77}, {77, 200}}},
      {"FourPartsAndEmptyOnes", {{0, 0}, {150, 200}, {1, 64}, {0, 1}, {0, 0}, {64, 150}}}};
  std::vector<ContractCase> cases;
  for (DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    for (const auto& [name, parts] : kSplits) {
      cases.push_back(
          {absl::StrCat("Merge_", name, "_", std::string(NameOf(dtype))),
           [dtype, parts = parts, expected = LazyExpected()](KernelRunner& runner) mutable {
             CheckParts(runner, dtype, parts, expected);
           }});
    }
  }
  return cases;
}

}  // namespace attnd::testing
