// What the rest of the library calls of the CUDA backend. Free of CUDA types; a build without CUDA
// has its own definitions (no_cuda.cc), which offer nothing.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/diagnostics.h"
#include "kernels/kernel_registry.h"
#include "kernels/merge.h"

namespace attnd {

// Every CUDA implementation, in order of preference within an algorithm.
absl::Span<const KernelImplementation> CudaImplementations();

// RunMerge on context.stream. `p` has passed ValidateMerge and has at least one row.
absl::Status RunMergeCuda(const MergeParams& p, const ExecutionContext& context);

// DiagnosticsWorkspaceBytes and RunDiagnostics on context.stream.
std::int64_t DiagnosticsWorkspaceBytesCuda(const AttentionParams& p);
absl::Status RunDiagnosticsCuda(const AttentionParams& p, const ExecutionContext& context,
                                AttentionDiagnostics* result);

}  // namespace attnd
