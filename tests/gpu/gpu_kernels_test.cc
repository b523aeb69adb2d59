// The contract suite over every CUDA implementation, and what only a device can show: sizes past 32
// bits, repeats, the dispatcher's choices, diagnostics.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/attention_shape.h"
#include "kernels/diagnostics.h"
#include "kernels/kernel_registry.h"
#include "tests/gpu/cuda_runner.h"
#include "tests/gpu/device_memory.h"
#include "tests/testing/contract_cases.h"
#include "tests/testing/expected_result.h"

namespace attnd::testing {
namespace {

class GpuKernelsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!CudaDeviceTraits().has_value()) GTEST_SKIP() << "no CUDA device";
    device_ = *CudaDeviceTraits();
  }

  std::string NameOfChoice(Problem& problem, std::string_view algorithm) {
    const auto kernel = SelectKernel(problem.params(), device_, algorithm);
    return kernel.ok() ? std::string((*kernel)->name) : kernel.status().ToString();
  }

  // Runs every implementation that supports the problem and compares with float64.
  void CheckAllImplementations(const ProblemSpec& spec) {
    Problem reference(spec);
    const ExpectedResult expected = ComputeExpected(reference);
    for (const KernelImplementation& kernel : ImplementationsFor(Backend::kCuda)) {
      Problem problem(spec);
      if (!kernel.supports(problem.params(), device_).ok()) continue;
      const absl::Status status = MakeCudaRunner(kernel, device_)->Run(problem);
      ASSERT_TRUE(status.ok()) << kernel.name << ": " << status.ToString();
      EXPECT_TRUE(ResultsMatch(problem, expected)) << kernel.name;
    }
  }

  // Every fused implementation gives the same bits on a device of one multiprocessor.
  void CheckTileSizes(const ProblemSpec& spec) {
    for (const KernelImplementation& kernel : ImplementationsFor(Backend::kCuda)) {
      Problem small_tiles(spec);
      Problem large_tiles(spec);
      if (kernel.algorithm != "fused" || !kernel.supports(small_tiles.params(), device_).ok())
        continue;
      ASSERT_TRUE(MakeCudaRunner(kernel, device_)->Run(small_tiles).ok());
      ASSERT_TRUE(MakeCudaRunner(kernel, WithMultiprocessors(device_, 1))->Run(large_tiles).ok());
      EXPECT_TRUE(SameBits(small_tiles, large_tiles, 0))
          << kernel.name << ", head_dim " << spec.head_dim;
    }
  }

  DeviceTraits device_;
};

ProblemSpec SmallSpec(DataType dtype) {
  ProblemSpec spec;
  spec.seqlen_q = 70;
  spec.seqlen_k = 200;
  spec.num_heads = 2;
  spec.num_kv_heads = 1;
  spec.dtype = dtype;
  spec.causal = true;
  return spec;
}

TEST_F(GpuKernelsTest, DispatcherPrefersFusedInEveryType) {
  Problem half(SmallSpec(DataType::kFloat16));
  Problem single(SmallSpec(DataType::kFloat32));
  EXPECT_EQ(NameOfChoice(half, "").substr(0, 10), "cuda_fused");
  EXPECT_EQ(NameOfChoice(single, "").substr(0, 10), "cuda_fused");
}

TEST_F(GpuKernelsTest, DispatcherLeavesUnalignedRowsToOnline) {
  ProblemSpec spec = SmallSpec(DataType::kFloat16);
  spec.slack = 1;
  Problem problem(spec);
  EXPECT_EQ(NameOfChoice(problem, ""), "cuda_online");
  EXPECT_TRUE(absl::IsUnimplemented(SelectKernel(problem.params(), device_, "fused").status()));
  CheckAllImplementations(spec);
}

TEST_F(GpuKernelsTest, DispatcherLeavesProbsToNaive) {
  ProblemSpec spec = SmallSpec(DataType::kBFloat16);
  spec.probs = true;
  Problem problem(spec);
  EXPECT_EQ(NameOfChoice(problem, ""), "cuda_naive");
}

TEST_F(GpuKernelsTest, MoreSequenceHeadsThanAGridDimensionHas) {
  ProblemSpec spec;
  spec.batch_size = 1100;
  spec.num_heads = 64;
  spec.num_kv_heads = 64;
  spec.seqlen_q = 2;
  spec.seqlen_k = 3;
  spec.head_dim = 8;
  for (DataType dtype : {DataType::kFloat16, DataType::kFloat32}) {
    spec.dtype = dtype;
    CheckAllImplementations(spec);
  }
}

TEST_F(GpuKernelsTest, LongSequencesAgreeWithFloat64) {
  ProblemSpec spec;
  spec.seqlen_q = 3;
  spec.seqlen_k = 70000;
  spec.head_dim = 64;
  spec.dtype = DataType::kBFloat16;
  CheckAllImplementations(spec);
}

TEST_F(GpuKernelsTest, AThousandRepeatsGiveTheSameBits) {
  for (DataType dtype : {DataType::kBFloat16, DataType::kFloat32}) {
    Problem first(SmallSpec(dtype));
    const auto kernel = SelectKernel(first.params(), device_, "fused");
    ASSERT_TRUE(kernel.ok());
    const auto runner = MakeCudaRunner(**kernel, device_);
    ASSERT_TRUE(runner->Run(first).ok());
    for (int repeat = 0; repeat < 1000; ++repeat) {
      Problem again(SmallSpec(dtype));
      ASSERT_TRUE(runner->Run(again).ok());
      ASSERT_TRUE(SameBits(first, again, 0)) << "repeat " << repeat;
    }
  }
}

TEST_F(GpuKernelsTest, TileSizeDoesNotChangeBits) {
  for (std::int64_t head_dim : {32, 64, 96, 128, 192, 256}) {
    for (bool causal : {false, true}) {
      ProblemSpec spec = SmallSpec(DataType::kBFloat16);
      spec.seqlen_q = 200;
      spec.seqlen_k = 333;
      spec.head_dim = head_dim;
      spec.causal = causal;
      spec.window_left = 150;
      CheckTileSizes(spec);
    }
  }
}

// Two sequences whose elements lie 2^31 and more elements apart must give what each gives by
// itself.
TEST_F(GpuKernelsTest, OffsetsPastTwoToThe31) {
  constexpr std::int64_t kBatchStride = (std::int64_t{1} << 31) + 1024;
  ProblemSpec spec = SmallSpec(DataType::kFloat16);
  spec.batch_size = 1;
  Problem problem(spec);
  const std::int64_t in_bytes = problem.inputs().size_bytes();
  const std::int64_t outputs = (in_bytes + 255) / 256 * 256;  // where they begin
  const std::int64_t out_bytes = problem.outputs().size_bytes();
  const std::int64_t far = kBatchStride * SizeOf(spec.dtype);
  auto memory = DeviceMemory::Create(far + outputs + out_bytes);
  if (!memory.ok()) GTEST_SKIP() << memory.status().ToString();

  for (const KernelImplementation& kernel : ImplementationsFor(Backend::kCuda)) {
    if (!kernel.supports(problem.params(), device_).ok() ||
        kernel.workspace_bytes(problem.params(), device_) > 0)
      continue;
    Problem alone(spec);
    ASSERT_TRUE(MakeCudaRunner(kernel, device_)->Run(alone).ok());
    // Sequence 1 holds the problem; sequence 0 reads what the allocation happens to hold and is not
    // looked at.
    ASSERT_TRUE(CopyBytes(memory->data() + far, problem.inputs().data(), in_bytes).ok());
    AttentionParams p = problem.ParamsAt(memory->data(), memory->data() + outputs);
    p.batch_size = p.q.batch = p.k.batch = p.v.batch = p.out.batch = 2;
    p.q.batch_stride = p.k.batch_stride = p.v.batch_stride = p.out.batch_stride = kBatchStride;
    p.lse = nullptr;
    ASSERT_TRUE(ValidateShape(p).ok());
    ExecutionContext context;
    context.device = device_;
    ASSERT_TRUE(kernel.run(p, context).ok());
    ASSERT_TRUE(SynchronizeDevice().ok());
    Problem batched(spec);
    ASSERT_TRUE(
        CopyBytes(batched.outputs().data(), memory->data() + far + outputs, out_bytes).ok());
    const AttentionParams expected = alone.params();
    const AttentionParams actual = batched.params();
    const std::int64_t bytes = spec.seqlen_q * spec.num_heads * spec.head_dim * SizeOf(spec.dtype);
    EXPECT_TRUE(std::equal(static_cast<const std::byte*>(expected.out.data),
                           static_cast<const std::byte*>(expected.out.data) + bytes,
                           static_cast<const std::byte*>(actual.out.data)))
        << kernel.name;
  }
}

void ExpectSameReport(const AttentionDiagnostics& expected, const AttentionDiagnostics& actual) {
  constexpr float kTolerance = 1e-4f;
  EXPECT_NEAR(expected.score_min, actual.score_min, kTolerance);
  EXPECT_NEAR(expected.score_max, actual.score_max, kTolerance);
  EXPECT_NEAR(expected.lse_min, actual.lse_min, kTolerance);
  EXPECT_NEAR(expected.lse_max, actual.lse_max, kTolerance);
  EXPECT_NEAR(expected.largest_weight, actual.largest_weight, kTolerance);
  EXPECT_EQ(expected.rows_fully_masked, actual.rows_fully_masked);
  EXPECT_EQ(expected.nonfinite_q, actual.nonfinite_q);
  EXPECT_EQ(expected.nonfinite_k, actual.nonfinite_k);
  EXPECT_EQ(expected.nonfinite_v, actual.nonfinite_v);
}

TEST_F(GpuKernelsTest, DiagnosticsAgreeWithTheHost) {
  ProblemSpec spec = SmallSpec(DataType::kBFloat16);
  spec.batch_size = 2;
  spec.seqlen_q = 90;
  spec.lengths_k = {200, 40};  // the second sequence has rows without keys
  Problem problem(spec);
  problem.SetV(0, 3, 0, 5, INFINITY);
  problem.SetK(1, 30, 0, 2, NAN);

  const auto kernel = SelectKernel(problem.params(), device_, "fused");
  ASSERT_TRUE(kernel.ok());
  const auto runner = MakeCudaRunner(**kernel, device_);
  ASSERT_TRUE(runner->Run(problem).ok());
  AttentionDiagnostics expected;
  ASSERT_TRUE(RunDiagnostics(problem.params(), ExecutionContext{}, &expected).ok());
  AttentionDiagnostics actual;
  ASSERT_TRUE(runner->RunDiagnostics(problem, &actual).ok());
  ExpectSameReport(expected, actual);
  EXPECT_EQ(actual.nonfinite_v, 1);
  EXPECT_GT(actual.rows_fully_masked, 0);
}

// Every implementation, and those of "fused" once more with their large tiles.
void RegisterAllContractTests(const DeviceTraits& device) {
  for (const KernelImplementation& kernel : ImplementationsFor(Backend::kCuda)) {
    RegisterContractTests(MakeCudaRunner(kernel, device));
    if (kernel.algorithm != "fused") continue;
    RegisterContractTests(MakeCudaRunner(std::string(kernel.name) + "_large_tiles", kernel,
                                         WithMultiprocessors(device, 1)));
  }
}

}  // namespace
}  // namespace attnd::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (const auto device = attnd::testing::CudaDeviceTraits()) {
    attnd::testing::RegisterAllContractTests(*device);
  }
  return RUN_ALL_TESTS();
}
