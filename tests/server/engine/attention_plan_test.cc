#include "server/engine/attention_plan.h"

#include <cstdint>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/diagnostics.h"
#include "tests/server/engine/simple_problem.h"

namespace attnd {
namespace {

constexpr DeviceTraits kCpu{.backend = Backend::kCpu};
constexpr DeviceTraits kGpu{.backend = Backend::kCuda, .compute_capability = 90};

DeviceInfo DeviceWithUnifiedMemory(bool unified) {
  DeviceInfo info;
  info.unified_memory = unified;
  return info;
}

TEST(AttentionPlanTest, TensorsLieAlignedOneAfterTheOther) {
  const AttentionPlan plan = *MakeAttentionPlan(MakeProblem(3, 5, 8), kCpu);
  EXPECT_EQ(plan.input(InputTensor::kQ).offset_bytes, 0);
  EXPECT_EQ(plan.input(InputTensor::kQ).size_bytes, 3 * 8 * 4);
  EXPECT_EQ(plan.input(InputTensor::kK).offset_bytes, 256);
  EXPECT_EQ(plan.input(InputTensor::kK).size_bytes, 5 * 8 * 4);
  EXPECT_EQ(plan.input(InputTensor::kV).offset_bytes, 512);
  EXPECT_EQ(plan.input_bytes, 512 + 5 * 8 * 4);
  EXPECT_EQ(plan.output(OutputTensor::kOut).size_bytes, 3 * 8 * 4);
  EXPECT_EQ(plan.output_bytes, 3 * 8 * 4);
}

// Kernels look at the alignment of what they are given, and a plan is made before there is memory.
TEST(AttentionPlanTest, ProblemsOfSixteenBitsGetTheDevicesFusedKernel) {
  if (ImplementationsFor(Backend::kCuda).empty()) GTEST_SKIP() << "a build without CUDA";
  AttentionProblem problem = MakeProblem(128, 128, 64);
  AttentionParams& p = problem.params;
  p.q.dtype = p.k.dtype = p.v.dtype = p.out.dtype = DataType::kFloat16;
  DeviceTraits ampere{.backend = Backend::kCuda, .compute_capability = 80};
  EXPECT_EQ(MakeAttentionPlan(problem, ampere)->kernel->name, "cuda_fused_sm80");
  EXPECT_EQ(MakeAttentionPlan(problem, kGpu)->kernel->name, "cuda_fused_sm90");
}

TEST(AttentionPlanTest, WhatIsNotAskedForTakesNothing) {
  const AttentionPlan plan = *MakeAttentionPlan(MakeProblem(3, 5, 8), kCpu);
  EXPECT_EQ(plan.input(InputTensor::kMask).size_bytes, 0);
  EXPECT_EQ(plan.input(InputTensor::kBias).size_bytes, 0);
  EXPECT_EQ(plan.output(OutputTensor::kLse).size_bytes, 0);
  EXPECT_EQ(plan.output(OutputTensor::kProbs).size_bytes, 0);
  EXPECT_EQ(plan.diagnostics.size_bytes, 0);
  EXPECT_EQ(plan.scratch_lse.size_bytes, 0);
}

TEST(AttentionPlanTest, OptionalOutputsHaveTheirSizes) {
  AttentionProblem problem = MakeProblem(3, 5, 8);
  problem.want_lse = problem.want_probs = problem.want_diagnostics = true;
  const AttentionPlan plan = *MakeAttentionPlan(problem, kCpu);
  EXPECT_EQ(plan.output(OutputTensor::kLse).size_bytes, 3 * 4);
  EXPECT_EQ(plan.output(OutputTensor::kProbs).size_bytes, 3 * 5 * 4);
  EXPECT_EQ(plan.diagnostics.size_bytes, static_cast<std::int64_t>(sizeof(AttentionDiagnostics)));
  EXPECT_EQ(plan.scratch_lse.size_bytes, 0);
}

TEST(AttentionPlanTest, DiagnosticsWithoutLseGetOneInTheWorkspace) {
  AttentionProblem problem = MakeProblem(3, 5, 8);
  problem.want_diagnostics = true;
  const AttentionPlan plan = *MakeAttentionPlan(problem, kCpu);
  EXPECT_EQ(plan.output(OutputTensor::kLse).size_bytes, 0);
  EXPECT_EQ(plan.scratch_lse.size_bytes, 3 * 4);
  EXPECT_GE(plan.workspace_bytes, plan.scratch_lse.offset_bytes + plan.scratch_lse.size_bytes);
}

TEST(AttentionPlanTest, ParametersPointIntoTheBlocks) {
  AttentionProblem problem = MakeProblem(4, 6, 8);
  AttentionParams& p = problem.params;
  p.batch_size = 2;
  p.q.batch_stride = p.k.batch_stride = p.v.batch_stride = p.out.batch_stride = 0;
  problem.cu_seqlens_q = {0, 1, 4};
  problem.cu_seqlens_k = {0, 2, 6};
  problem.lengths_q = {1, 2};
  problem.lengths_k = {2, 3};
  problem.alibi_slopes = {0.5f};
  problem.sinks = {1.0f};
  problem.want_lse = true;
  const AttentionPlan plan = *MakeAttentionPlan(problem, kCpu);
  std::vector<std::byte> input(plan.input_bytes);
  std::vector<std::byte> output(plan.output_bytes);
  const AttentionParams bound = BindParams(plan, input.data(), output.data(), nullptr);
  EXPECT_EQ(bound.q.data, input.data());
  EXPECT_EQ(bound.out.data, output.data());
  EXPECT_NE(bound.lse, nullptr);
  EXPECT_EQ(bound.lse_batch_stride, 0);
  EXPECT_EQ(bound.lse_head_stride, 4);
  EXPECT_EQ(bound.probs, nullptr);
  EXPECT_EQ(bound.mask.data, nullptr);
  EXPECT_EQ(bound.bias.data, nullptr);
  const auto* sinks = reinterpret_cast<const std::byte*>(bound.sinks);
  EXPECT_EQ(sinks - input.data(), plan.small_input(SmallInput::kSinks).offset_bytes);
  EXPECT_NE(bound.cu_seqlens_q, nullptr);
  EXPECT_NE(bound.cu_seqlens_k, nullptr);
  EXPECT_NE(bound.lengths_q, nullptr);
  EXPECT_NE(bound.lengths_k, nullptr);
  EXPECT_NE(bound.alibi_slopes, nullptr);
}

TEST(AttentionPlanTest, AnEmptyProblemNeedsNothing) {
  const AttentionPlan plan = *MakeAttentionPlan(MakeProblem(0, 0, 8), kCpu);
  EXPECT_EQ(plan.input_bytes, 0);
  EXPECT_EQ(plan.output_bytes, 0);
}

TEST(AttentionPlanTest, SizesThatOverflowAreRefused) {
  for (const std::int64_t seqlen : {std::int64_t{1} << 58, std::int64_t{1} << 57}) {
    EXPECT_EQ(MakeAttentionPlan(MakeProblem(1, seqlen, 8), kCpu).status().code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(MakeAttentionPlan(MakeProblem(seqlen, 1, 8), kCpu).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  AttentionProblem probs = MakeProblem(std::int64_t{1} << 31, std::int64_t{1} << 31, 8);
  probs.want_probs = true;
  EXPECT_EQ(MakeAttentionPlan(probs, kCpu).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AttentionPlanTest, AnUnknownAlgorithmIsRefused) {
  AttentionProblem problem = MakeProblem(1, 1, 8);
  problem.algorithm = "nonesuch";
  EXPECT_EQ(MakeAttentionPlan(problem, kCpu).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(AttentionPlanTest, TheReferenceIsHostCodeOnEveryDevice) {
  AttentionProblem problem = MakeProblem(2, 3, 8);
  problem.algorithm = "reference";
  EXPECT_FALSE(MakeAttentionPlan(problem, kCpu)->runs_on_host);
  const AttentionPlan plan = *MakeAttentionPlan(problem, kGpu);
  EXPECT_TRUE(plan.runs_on_host);
  EXPECT_EQ(plan.kernel->backend, Backend::kCpu);
}

TEST(AttentionPlanTest, TheNeedIsThatOfTheBuffersOnEachKindOfDevice) {
  AttentionProblem problem = MakeProblem(3, 5, 8);
  problem.want_diagnostics = true;  // so that there is a workspace
  AttentionPlan plan = *MakeAttentionPlan(problem, kCpu);
  const std::int64_t blocks =
      RoundUpToBuffer(plan.input_bytes) + RoundUpToBuffer(plan.output_bytes);
  const std::int64_t workspace = RoundUpToBuffer(plan.workspace_bytes);
  ASSERT_GT(workspace, 0);

  const MemoryNeed unified = NeedOf(plan, DeviceWithUnifiedMemory(true));
  EXPECT_EQ(unified.staging_bytes, blocks);
  EXPECT_EQ(unified.device_bytes, workspace);

  const MemoryNeed discrete = NeedOf(plan, DeviceWithUnifiedMemory(false));
  EXPECT_EQ(discrete.staging_bytes, blocks);
  EXPECT_EQ(discrete.device_bytes, blocks + workspace);

  plan.runs_on_host = true;
  const MemoryNeed on_host = NeedOf(plan, DeviceWithUnifiedMemory(false));
  EXPECT_EQ(on_host.staging_bytes, blocks + workspace);
  EXPECT_EQ(on_host.device_bytes, 0);
}

}  // namespace
}  // namespace attnd
