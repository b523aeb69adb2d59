// Same request, same bits: whatever else is in the batch, wherever it lies, however often it is
// asked.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
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
void CheckAloneAndBatched(KernelRunner& runner, const ProblemSpec& spec) {
  Problem batched(spec);
  if (!RunOrSkip(runner, batched)) return;
  for (std::int64_t b = 0; b < spec.batch_size; ++b) {
    Problem alone = batched.Extract(b);
    if (!RunOrSkip(runner, alone)) return;
    EXPECT_TRUE(SameBits(alone, batched, b));
  }
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
      cases.push_back({absl::StrCat("SameBitsAloneAndPacked", suffix),
                       [packed](KernelRunner& runner) { CheckAloneAndBatched(runner, packed); }});
      cases.push_back({absl::StrCat("SameBitsAloneAndPadded", suffix),
                       [padded](KernelRunner& runner) { CheckAloneAndBatched(runner, padded); }});
      cases.push_back(
          {absl::StrCat("SameBitsAloneAndPackedWithOptions", suffix),
           [optioned](KernelRunner& runner) { CheckAloneAndBatched(runner, optioned); }});
      cases.push_back({absl::StrCat("SameBitsWhenRepeated", suffix),
                       [packed](KernelRunner& runner) { CheckRepeats(runner, packed); }});
    }
  }
  return cases;
}

}  // namespace attnd::testing
