// What one request needs, computed from its sizes alone, before any of its bytes are read: where each tensor lies in the
// request's input and output blocks and how much memory all of it takes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/attention_params.h"
#include "kernels/kernel_registry.h"

namespace attnd {

enum class InputTensor : std::uint8_t { kQ, kK, kV, kMask, kBias };
enum class OutputTensor : std::uint8_t { kOut, kLse, kProbs };
inline constexpr int kNumInputTensors = 5;
inline constexpr int kNumOutputTensors = 3;

// A checked problem: AttentionParams with sizes, strides and options set and every pointer null, and the small arrays that
// the pointers will refer to.
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

  // Every extent begins at a multiple of 256 bytes. Tensors that the request does not have, or did not ask for, have
  // size 0.
  std::array<Extent, kNumInputTensors> inputs;
  std::array<Extent, kNumOutputTensors> outputs;
  std::int64_t input_bytes = 0;      // the input block: tensors, then the small arrays
  std::int64_t output_bytes = 0;     // the output block: tensors, then diagnostics
  std::int64_t workspace_bytes = 0;  // device only

  const Extent& input(InputTensor t) const { return inputs[static_cast<int>(t)]; }
  const Extent& output(OutputTensor t) const { return outputs[static_cast<int>(t)]; }
};

// Chooses the kernel and lays out the blocks. Errors of SelectKernel; InvalidArgument where sizes overflow.
absl::StatusOr<AttentionPlan> MakeAttentionPlan(AttentionProblem problem, const DeviceTraits& device);

}  // namespace attnd
