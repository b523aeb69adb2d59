#include "kernels/kernel_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/testing/problem.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;

AttentionParams Params(bool probs = false) {
  static float somewhere;
  testing::ProblemSpec spec;
  spec.seqlen_q = spec.seqlen_k = 100;
  AttentionParams p = testing::Problem(spec).ParamsAt(nullptr, nullptr);
  if (probs) p.probs = &somewhere;
  return p;
}

std::string Selected(const AttentionParams& p, std::string_view algorithm) {
  const auto kernel = SelectKernel(p, DeviceTraits{}, algorithm);
  return kernel.ok() ? std::string((*kernel)->name) : kernel.status().ToString();
}

TEST(KernelRegistryTest, NamesAreUniqueAndFunctionsPresent) {
  std::set<std::string_view> names;
  for (Backend backend : {Backend::kCpu, Backend::kCuda}) {
    for (const KernelImplementation& kernel : ImplementationsFor(backend)) {
      EXPECT_TRUE(names.insert(kernel.name).second) << kernel.name;
      EXPECT_EQ(kernel.backend, backend) << kernel.name;
      EXPECT_NE(kernel.supports, nullptr) << kernel.name;
      EXPECT_NE(kernel.workspace_bytes, nullptr) << kernel.name;
      EXPECT_NE(kernel.run, nullptr) << kernel.name;
    }
  }
}

TEST(KernelRegistryTest, EveryAlgorithmHasItsCpuImplementation) {
  for (const char* algorithm : {"fused", "online", "two_pass", "naive", "reference"}) {
    EXPECT_EQ(Selected(Params(), algorithm), std::string("cpu_") + algorithm);
  }
}

TEST(KernelRegistryTest, DispatcherPrefersFused) { EXPECT_EQ(Selected(Params(), ""), "cpu_fused"); }

TEST(KernelRegistryTest, FusedSupportsEveryTypeAndHeadDim) {
  for (DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    for (std::int64_t head_dim = 8; head_dim <= 256; head_dim += 8) {
      testing::ProblemSpec spec;
      spec.dtype = dtype;
      spec.head_dim = head_dim;
      spec.mask = spec.bias = testing::ScoreArray::kFull;
      spec.alibi = testing::Slopes::kPerHead;
      spec.sinks = true;
      testing::Problem problem(spec);
      EXPECT_EQ(Selected(problem.params(), ""), "cpu_fused");
    }
  }
}

TEST(KernelRegistryTest, DispatcherFallsBackToWhatSupportsTheProblem) {
  EXPECT_EQ(Selected(Params(/*probs=*/true), ""), "cpu_two_pass");
}

TEST(KernelRegistryTest, UnknownAlgorithmIsInvalidAndTheKnownOnesAreNamed) {
  const auto kernel = SelectKernel(Params(), DeviceTraits{}, "quick");
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(kernel.status().message()),
      HasSubstr("algorithm: \"quick\"; there are fused, online, two_pass, naive, reference"));
}

TEST(KernelRegistryTest, AlgorithmThatDoesNotSupportTheProblemIsUnimplemented) {
  const auto kernel = SelectKernel(Params(/*probs=*/true), DeviceTraits{}, "online");
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(kernel.status().message()),
              HasSubstr("return_probs: algorithm online does not have them, accepted: naive, "));
}

TEST(KernelRegistryTest, AlgorithmWithoutAnImplementationForTheBackendIsUnimplemented) {
  DeviceTraits device;
  device.backend = Backend::kCuda;
  device.compute_capability = 90;
  const auto kernel = SelectKernel(Params(), device, "reference");
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(kernel.status().message()), HasSubstr("\"reference\" for cuda"));
}

TEST(KernelRegistryTest, WorkspaceOfNaiveHoldsTheScoreMatrix) {
  const auto kernel = SelectKernel(Params(), DeviceTraits{}, "naive");
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ((*kernel)->workspace_bytes(Params(), DeviceTraits{}), 4 * 100 * (100 + 2));
}

TEST(KernelRegistryTest, NaiveRefusesAScoreMatrixThatOverflows) {
  AttentionParams p = Params();
  p.seqlen_q = p.seqlen_k = std::int64_t{1} << 31;
  EXPECT_EQ(SelectKernel(p, DeviceTraits{}, "naive").status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace attnd
