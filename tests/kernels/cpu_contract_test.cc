// What the contract asks of CPU implementations beyond the suite that all devices share.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernel_registry.h"
#include "kernels/sequence_bounds.h"
#include "tests/testing/expected_result.h"
#include "tests/testing/kernel_runner.h"
#include "tests/testing/problem.h"
#include "tests/testing/sparse_memory.h"
#include "tests/testing/threaded_parallel_for.h"

namespace attnd {
namespace {

using testing::Problem;
using testing::ProblemSpec;

class CpuContractTest : public ::testing::TestWithParam<KernelImplementation> {
 protected:
  void Run(Problem& problem, ParallelFor* parallel_for = nullptr) {
    const absl::Status status = testing::MakeCpuRunner(GetParam(), parallel_for)->Run(problem);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
};

bool SameOutputs(Problem& a, Problem& b) {
  return std::equal(a.outputs().data(), a.outputs().data() + a.outputs().size_bytes(),
                    b.outputs().data());
}

ProblemSpec DecodingSpec() {
  ProblemSpec spec;
  spec.name = "Decoding";
  spec.batch_size = 3;
  spec.seqlen_q = 2;
  spec.seqlen_k = 1700;
  spec.num_heads = 8;
  spec.num_kv_heads = 2;
  spec.lengths_k = {1700, 513, 40};
  return spec;
}

ProblemSpec PrefillSpec() {
  ProblemSpec spec;
  spec.name = "Prefill";
  spec.batch_size = 2;
  spec.seqlen_q = spec.seqlen_k = 150;
  spec.num_heads = 6;
  spec.num_kv_heads = 3;
  spec.causal = true;
  spec.bias = testing::ScoreArray::kPerHead;
  return spec;
}

TEST_P(CpuContractTest, SameBitsForAnyNumberOfThreads) {
  for (ProblemSpec spec : {DecodingSpec(), PrefillSpec()}) {
    for (DataType dtype : {DataType::kFloat32, DataType::kBFloat16}) {
      spec.dtype = dtype;
      Problem alone(spec);
      Run(alone);
      for (int num_threads : {1, 2, 3, 16}) {
        testing::ThreadedParallelFor parallel_for(num_threads);
        Problem threaded(spec);
        Run(threaded, &parallel_for);
        EXPECT_TRUE(SameOutputs(alone, threaded)) << spec.name << ", " << num_threads << " threads";
      }
    }
  }
}

TEST_P(CpuContractTest, ValuesThatNoRowMaySeeAreHarmless) {
  ProblemSpec spec = PrefillSpec();
  spec.mask = testing::ScoreArray::kColumnsOnly;
  Problem problem(spec);
  for (std::int64_t key : {0, 17, 149}) {
    problem.SetMask(0, 0, 0, key, false);
    for (std::int64_t head = 0; head < spec.num_kv_heads; ++head) {
      problem.SetV(0, key, head, 5, std::numeric_limits<float>::quiet_NaN());
    }
  }
  Run(problem);
  EXPECT_TRUE(testing::ResultsMatch(problem, testing::ComputeExpected(problem)));
}

// Masks are often made of the lowest float instead of -inf: a row that has nothing else attends to
// all its keys alike. No change of units may turn such a score into an infinity.
TEST_P(CpuContractTest, ScoresMayReachTheLargestFloat) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  for (ProblemSpec spec : {DecodingSpec(), PrefillSpec()}) {
    spec.bias = testing::ScoreArray::kFull;
    spec.bias_dtype = DataType::kFloat32;
    Problem problem(spec);
    for (std::int64_t key = 0; key < spec.seqlen_k; ++key) {
      problem.SetBias(0, 1, 0, key, -kLargest);
      problem.SetBias(0, 2, 1, key, kLargest);
      problem.SetBias(0, 3, 1, key, key % 2 == 0 ? -kLargest : 0.0f);
    }
    Run(problem);
    EXPECT_TRUE(testing::ResultsMatch(problem, testing::ComputeExpected(problem))) << spec.name;
  }
}

// Which stride of a tensor reaches past 2^31 elements.
enum class Huge { kBatch, kSeqlen, kHeads };

constexpr std::int64_t kHugeStride = (std::int64_t{1} << 31) + 64;
constexpr std::int64_t kSparseBytes = (kHugeStride + 4096) * 4;

template <typename View>
void Spread(View& view, Huge huge) {
  view.head_stride = huge == Huge::kHeads ? kHugeStride : 64;
  view.seq_stride = huge == Huge::kSeqlen ? kHugeStride : 256;
  view.batch_stride = huge == Huge::kBatch ? kHugeStride : 1024;
}

// Copies a tensor to a view of other strides, or back.
template <typename From, typename To>
void CopyTensor(const From& from, const To& to) {
  for (std::int64_t i = 0; i < from.batch * from.seqlen * from.heads * from.dim; ++i) {
    const std::int64_t d = i % from.dim;
    const std::int64_t head = i / from.dim % from.heads;
    const std::int64_t row = i / from.dim / from.heads % from.seqlen;
    const std::int64_t b = i / from.dim / from.heads / from.seqlen;
    StoreElement(const_cast<void*>(static_cast<const void*>(to.data)), to.dtype,
                 RowOffset(to, b, 0, row, head) + d,
                 LoadElement(from.data, from.dtype, RowOffset(from, b, 0, row, head) + d));
  }
}

TEST_P(CpuContractTest, OffsetsPast2To31) {
  ProblemSpec spec;
  spec.batch_size = spec.seqlen_q = spec.seqlen_k = spec.num_heads = spec.num_kv_heads = 2;
  spec.head_dim = 8;
  spec.dtype = DataType::kFloat16;
  Problem dense(spec);
  Run(dense);
  const AttentionParams from = dense.params();
  for (Huge huge : {Huge::kBatch, Huge::kSeqlen, Huge::kHeads}) {
    const testing::SparseMemory q(kSparseBytes), k(kSparseBytes), v(kSparseBytes),
        out(kSparseBytes), lse(kSparseBytes);
    if (lse.data() == nullptr || out.data() == nullptr) GTEST_SKIP() << "no address space";
    AttentionParams p = from;
    p.q.data = q.data();
    p.k.data = k.data();
    p.v.data = v.data();
    p.out.data = out.data();
    p.lse = reinterpret_cast<float*>(lse.data());
    p.lse_head_stride = kHugeStride;
    p.lse_batch_stride = 2;
    Spread(p.q, huge);
    Spread(p.k, huge);
    Spread(p.v, huge);
    Spread(p.out, huge);
    CopyTensor(from.q, p.q);
    CopyTensor(from.k, p.k);
    CopyTensor(from.v, p.v);
    std::vector<std::byte> workspace(GetParam().workspace_bytes(p, DeviceTraits{}) + 1);
    ExecutionContext context;
    context.workspace = workspace.data();
    context.workspace_bytes = static_cast<std::int64_t>(workspace.size());
    ASSERT_TRUE(GetParam().run(p, context).ok());

    Problem result(spec);
    CopyTensor(p.out, result.params().out);
    for (std::int64_t i = 0; i < 8; ++i) {
      result.params().lse[i] = p.lse[i / 4 * 2 + i / 2 % 2 * kHugeStride + i % 2];
    }
    EXPECT_TRUE(SameOutputs(dense, result)) << static_cast<int>(huge);
  }
}

std::vector<KernelImplementation> CpuImplementations() {
  const auto kernels = ImplementationsFor(Backend::kCpu);
  return {kernels.begin(), kernels.end()};
}

INSTANTIATE_TEST_SUITE_P(Cpu, CpuContractTest, ::testing::ValuesIn(CpuImplementations()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace attnd
