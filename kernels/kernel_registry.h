// What implementations of attention exist, what each supports, and which one a problem gets.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention_params.h"
#include "kernels/parallel_for.h"

namespace attnd {

enum class Backend : std::uint8_t { kCpu, kCuda };

// What a choice of kernel may depend on.
struct DeviceTraits {
  Backend backend = Backend::kCpu;
  int compute_capability = 0;  // CUDA: 10 * major + minor, e.g. 90; CPU: 0
  int num_multiprocessors = 0;
  std::int64_t shared_memory_per_block_bytes = 0;  // the opt-in limit
};

// What a kernel needs to run. Kernels allocate nothing on the device and do not synchronise.
struct ExecutionContext {
  ParallelFor* parallel_for = nullptr;  // CPU only; nullptr: run on the calling thread
  void* stream = nullptr;               // CUDA only: the cudaStream_t to enqueue on
  void* workspace = nullptr;            // device memory, 256-byte aligned
  std::int64_t workspace_bytes = 0;     // at least the implementation's workspace_bytes(params)
  DeviceTraits device;
};

struct KernelImplementation {
  // What a request may ask for: "naive", "two_pass", "online", "fused" or "reference".
  std::string_view algorithm;
  std::string_view name;  // unique, e.g. "cpu_fused", "cuda_fused_sm80"
  Backend backend = Backend::kCpu;

  // Pointers of `p` are compared with nullptr only, to see which options and outputs it has, so
  // that a kernel can be chosen before there is memory: any other value then says "will be there".
  // OK if this implementation computes `p` on `device`; else Unimplemented, saying what it does not
  // support.
  absl::Status (*supports)(const AttentionParams& p, const DeviceTraits& device) = nullptr;
  // Device memory that `run` needs beside inputs and outputs, in bytes. Looks at sizes, never at
  // pointers' targets.
  std::int64_t (*workspace_bytes)(const AttentionParams& p, const DeviceTraits& device) = nullptr;
  // Computes, or enqueues on context.stream and returns. `p` must pass ValidateShape and
  // `supports`.
  absl::Status (*run)(const AttentionParams& p, const ExecutionContext& context) = nullptr;
};

// Every implementation in this build for a backend, in order of preference within an algorithm.
// Empty for CUDA in a build without it.
absl::Span<const KernelImplementation> ImplementationsFor(Backend backend);

// The implementation for a problem. `algorithm` empty: by the problem's own shape and the device,
// never by load or by what else is in the batch. Else the first implementation of that algorithm
// that supports the problem. InvalidArgument for an unknown algorithm (naming those there are);
// Unimplemented when none supports the problem.
absl::StatusOr<const KernelImplementation*> SelectKernel(const AttentionParams& p,
                                                         const DeviceTraits& device,
                                                         std::string_view algorithm);

}  // namespace attnd
