// How many bytes each tensor of a request has.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "server/engine/attention_plan.h"

namespace attnd {

using InputTensorBytes = std::array<std::int64_t, kNumInputTensors>;  // in the order of InputTensor

// Bytes that `tensor` of a checked problem has, 0 for one that the problem does not have.
std::int64_t TensorBytes(const AttentionProblem& problem, InputTensor tensor);

// InvalidArgument unless a request's tensors have just the bytes that its problem needs.
absl::Status CheckTensorBytes(const AttentionProblem& problem, const InputTensorBytes& sizes);

}  // namespace attnd
