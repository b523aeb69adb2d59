// What the Hopper kernel's test files share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/sm90/fused_implementation.h"
#include "tests/gpu/cuda_runner.h"
#include "tests/gpu/device_memory.h"
#include "tests/testing/expected_result.h"

namespace attnd::testing {

// head_dim and head_dim_v of its specialisations.
inline constexpr std::pair<int, int> kSm90Widths[] = {{64, 64},   {96, 96},   {128, 128},
                                                      {192, 128}, {192, 192}, {256, 256}};

// Two sequences with two heads, of more than a tile of rows and of keys.
inline ProblemSpec Sm90Spec(int head_dim, int head_dim_v) {
  ProblemSpec spec;
  spec.batch_size = 2;
  spec.seqlen_q = 130;
  spec.seqlen_k = 260;
  spec.num_heads = 2;
  spec.num_kv_heads = 1;
  spec.head_dim = head_dim;
  spec.head_dim_v = head_dim_v;
  spec.dtype = DataType::kBFloat16;
  return spec;
}

// Skips where there is no Hopper.
class Sm90Test : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto device = CudaDeviceTraits();
    if (!device.has_value() || device->compute_capability != 90)
      GTEST_SKIP() << "no device of compute capability 9.0";
    device_ = *device;
  }

  // Whether `kernel` computes the problem on the device, or on that part of it.
  ::testing::AssertionResult Runs(const KernelImplementation& kernel, const DeviceTraits& device,
                                  Problem& problem) {
    const absl::Status status = MakeCudaRunner(kernel, device)->Run(problem);
    if (status.ok()) return ::testing::AssertionSuccess();
    return ::testing::AssertionFailure() << status.ToString();
  }

  // Runs on the device, or on that part of it, and compares with float64.
  void Check(const ProblemSpec& spec, const DeviceTraits& device) {
    SCOPED_TRACE(absl::StrCat("head_dim ", spec.head_dim, "/", spec.head_dim_v, ", ", spec.seqlen_q,
                              " x ", spec.seqlen_k, spec.causal ? " causal" : "", " window ",
                              spec.window_left, " ", spec.window_right));
    Problem problem(spec);
    const ExpectedResult expected = ComputeExpected(problem);
    ASSERT_TRUE(Runs(kernel_, device, problem));
    EXPECT_TRUE(ResultsMatch(problem, expected));
  }
  void Check(const ProblemSpec& spec) { Check(spec, device_); }

  // Every byte, those of no result included.
  static bool SameOutputs(Problem& a, Problem& b) {
    return std::equal(a.outputs().data(), a.outputs().data() + a.outputs().size_bytes(),
                      b.outputs().data(), b.outputs().data() + b.outputs().size_bytes());
  }

  const KernelImplementation kernel_ = cuda::sm90::FusedImplementation();
  DeviceTraits device_;
};

}  // namespace attnd::testing
