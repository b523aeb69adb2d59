#include "tests/testing/accuracy_grid.h"

#include <gtest/gtest.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "tests/testing/expected_result.h"

namespace attnd::testing {
namespace {

constexpr std::array kTypes = {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16};

ContractCase AccuracyCase(const ProblemSpec& spec) {
  return {spec.name, [spec, expected = LazyExpected()](KernelRunner& runner) mutable {
            Problem problem(spec);
            if (!RunOrSkip(runner, problem)) return;
            EXPECT_TRUE(ResultsMatch(problem, expected.Of(problem)));
          }};
}

}  // namespace

void AccuracyGrid::Add(ProblemSpec spec, DataType dtype) {
  spec.dtype = dtype;
  absl::StrAppend(&spec.name, "_", std::string(NameOf(dtype)));
  cases_.push_back(AccuracyCase(spec));
}

void AccuracyGrid::AddInTurn(const ProblemSpec& spec) {
  Add(spec, kTypes[turn_++ % kTypes.size()]);
}

void AccuracyGrid::AddInAllTypes(const ProblemSpec& spec) {
  for (DataType dtype : kTypes) Add(spec, dtype);
}

ProblemSpec Spec(std::string name, std::int64_t seqlen_q, std::int64_t seqlen_k) {
  ProblemSpec spec;
  spec.name = std::move(name);
  spec.seqlen_q = seqlen_q;
  spec.seqlen_k = seqlen_k;
  return spec;
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

}  // namespace attnd::testing
