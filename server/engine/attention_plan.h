// What one request needs, computed from its sizes alone, before any of its bytes are read: where
// each tensor lies in the request's input and output blocks and how much memory all of it takes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/attention_params.h"
#include "kernels/kernel_registry.h"
#include "server/device/device.h"

namespace attnd {

enum class InputTensor : std::uint8_t { kQ, kK, kV, kMask, kBias };
enum class OutputTensor : std::uint8_t { kOut, kLse, kProbs };
inline constexpr int kNumInputTensors = 5;
inline constexpr int kNumOutputTensors = 3;

// As requests and results call them.
const char* NameOf(InputTensor tensor);
const char* NameOf(OutputTensor tensor);

// The arrays of AttentionProblem, which travel behind the tensors.
enum class SmallInput : std::uint8_t {
  kCuSeqlensQ,
  kCuSeqlensK,
  kLengthsQ,
  kLengthsK,
  kAlibiSlopes,
  kSinks
};
inline constexpr int kNumSmallInputs = 6;

// A checked problem: AttentionParams with sizes, strides and options set and every pointer null,
// and the small arrays that the pointers will refer to.
struct AttentionProblem {
  AttentionParams params;
  std::vector<std::int32_t> cu_seqlens_q;  // empty: not packed
  std::vector<std::int32_t> cu_seqlens_k;
  std::vector<std::int32_t> lengths_q;  // empty: all
  std::vector<std::int32_t> lengths_k;
  std::vector<float> alibi_slopes;
  std::vector<float> sinks;
  bool want_lse = false;
  bool want_probs = false;
  bool want_diagnostics = false;
  std::string algorithm;  // empty: the dispatcher chooses
};

// Part of a block of memory, in bytes.
struct Extent {
  std::int64_t offset_bytes = 0;
  std::int64_t size_bytes = 0;
};

struct AttentionPlan {
  AttentionProblem problem;
  const KernelImplementation* kernel = nullptr;
  bool runs_on_host =
      false;  // the kernel is host code and the device is not: it works on staging memory

  // Every extent begins at a multiple of 256 bytes. Tensors that the request does not have, or did
  // not ask for, have size 0.
  std::array<Extent, kNumInputTensors> inputs;
  std::array<Extent, kNumOutputTensors> outputs;
  std::array<Extent, kNumSmallInputs> small_inputs;  // in the input block
  Extent diagnostics;                                // in the output block
  Extent scratch_lse;                // in the workspace: lse that only the diagnostics need
  double flops = 0;                  // VisibleFlops of the problem
  std::int64_t input_bytes = 0;      // the input block: tensors, then the small arrays
  std::int64_t output_bytes = 0;     // the output block: tensors, then diagnostics
  std::int64_t workspace_bytes = 0;  // the workspace: the kernel's own, then the scratch lse

  const Extent& input(InputTensor t) const { return inputs[static_cast<int>(t)]; }
  const Extent& output(OutputTensor t) const { return outputs[static_cast<int>(t)]; }
  const Extent& small_input(SmallInput t) const { return small_inputs[static_cast<int>(t)]; }
};

// Memory by pool, in bytes.
struct MemoryNeed {
  std::int64_t staging_bytes = 0;
  std::int64_t device_bytes = 0;
};

// Chooses the kernel and lays out the blocks. "reference" is host code on every device. Errors of
// SelectKernel; InvalidArgument where sizes overflow.
absl::StatusOr<AttentionPlan> MakeAttentionPlan(AttentionProblem problem,
                                                const DeviceTraits& device);

// Exactly what the plan's buffers take from the pools of `device`: input and output blocks in
// staging memory, and, where the device has memory of its own, the same there; the workspace where
// the kernel runs.
MemoryNeed NeedOf(const AttentionPlan& plan, const DeviceInfo& device);

// What makes up that need, for an error message: "q 512, k 1024, v 1024, out 512, workspace 64
// bytes". Leaves out what the request does not have.
std::string DescribeNeed(const AttentionPlan& plan);

// The plan's parameters with every pointer set, for blocks of the plan's sizes in the memory of
// whoever computes. A pointer of something the problem does not have stays null.
AttentionParams BindParams(const AttentionPlan& plan, std::byte* input, std::byte* output,
                           std::byte* workspace);

}  // namespace attnd
