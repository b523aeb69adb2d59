// Same request, same bits: whatever else is in the batch, wherever it lies, however often it is
// asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/sequence_bounds.h"
#include "tests/testing/contract_cases.h"
#include "tests/testing/expected_result.h"

namespace attnd::testing {
namespace {

ProblemSpec PackedSpec() {
  ProblemSpec spec;
  spec.batch_size = 7;
  spec.seqlen_q = 200;
  spec.seqlen_k = 260;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.layout = Layout::kPacked;
  spec.rooms_q = {1, 70, 0, 3, 1, 200, 1};
  spec.rooms_k = {260, 70, 9, 150, 1, 200, 33};
  return spec;
}

ProblemSpec PaddedSpec() {
  ProblemSpec spec;
  spec.batch_size = 4;
  spec.seqlen_q = 70;
  spec.seqlen_k = 140;
  spec.num_heads = 4;
  spec.num_kv_heads = 1;
  spec.slack = 8;
  spec.lengths_q = {70, 1, 33, 64};
  spec.lengths_k = {140, 129, 64, 5};
  return spec;
}

// Every sequence computed by itself must give what it gives in the batch.
void CheckAloneAndBatched(KernelRunner& runner, Problem batched) {
  if (!RunOrSkip(runner, batched)) return;
  for (std::int64_t b = 0; b < batched.spec().batch_size; ++b) {
    Problem alone = batched.Extract(b);
    if (!RunOrSkip(runner, alone)) return;
    EXPECT_TRUE(SameBits(alone, batched, b));
  }
}

// A bias that masks with the lowest float: every other row has nothing else.
Problem MaskedByTheLowestFloat(ProblemSpec spec) {
  spec.bias = ScoreArray::kFull;
  spec.bias_dtype = DataType::kFloat32;
  Problem problem(spec);
  for (std::int64_t b = 0; b < spec.batch_size; ++b) {
    const SequenceBounds s = BoundsOf(problem.params(), b);
    for (std::int64_t i = 0; i < spec.num_heads * s.seqlen_q * s.seqlen_k; ++i) {
      const std::int64_t j = i % s.seqlen_k;
      const std::int64_t row = i / s.seqlen_k % s.seqlen_q;
      if (row % 2 == 0 || j % 3 == 1) {
        problem.SetBias(b, i / s.seqlen_k / s.seqlen_q, row, j,
                        std::numeric_limits<float>::lowest());
      }
    }
  }
  return problem;
}

void CheckRepeats(KernelRunner& runner, const ProblemSpec& spec) {
  Problem first(spec);
  if (!RunOrSkip(runner, first)) return;
  Problem again(spec);
  for (int repeat = 0; repeat < 5; ++repeat) {
    again.PoisonOutputs();
    if (!RunOrSkip(runner, again)) return;
    EXPECT_TRUE(std::equal(first.outputs().data(),
                           first.outputs().data() + first.outputs().size_bytes(),
                           again.outputs().data()));
  }
}

}  // namespace

std::vector<ContractCase> DeterminismCases() {
  std::vector<ContractCase> cases;
  for (DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    for (bool causal : {false, true}) {
      const std::string suffix =
          absl::StrCat(causal ? "_causal_" : "_", std::string(NameOf(dtype)));
      ProblemSpec packed = PackedSpec();
      packed.dtype = dtype;
      packed.causal = causal;
      ProblemSpec padded = PaddedSpec();
      padded.dtype = dtype;
      padded.causal = causal;
      ProblemSpec optioned = packed;
      optioned.bias = ScoreArray::kPerRow;
      optioned.mask = ScoreArray::kPerHead;
      optioned.alibi = Slopes::kPerBatchAndHead;
      optioned.softcap = 10.0f;
      optioned.sinks = true;
      cases.push_back(
          {absl::StrCat("SameBitsAloneAndPacked", suffix),
           [packed](KernelRunner& runner) { CheckAloneAndBatched(runner, Problem(packed)); }});
      cases.push_back(
          {absl::StrCat("SameBitsAloneAndPadded", suffix),
           [padded](KernelRunner& runner) { CheckAloneAndBatched(runner, Problem(padded)); }});
      cases.push_back(
          {absl::StrCat("SameBitsAloneAndPackedWithOptions", suffix),
           [optioned](KernelRunner& runner) { CheckAloneAndBatched(runner, Problem(optioned)); }});
      cases.push_back({absl::StrCat("SameBitsAloneAndPackedMaskedByTheLowestFloat", suffix),
                       [packed](KernelRunner& runner) {
                         CheckAloneAndBatched(runner, MaskedByTheLowestFloat(packed));
                       }});
      cases.push_back({absl::StrCat("SameBitsWhenRepeated", suffix),
                       [packed](KernelRunner& runner) { CheckRepeats(runner, packed); }});
    }
  }
  return cases;
}

}  // namespace attnd::testing
