// Launches the kernels of the numerical-stability report.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/diagnostics.h"

namespace attnd::cuda {

// Bytes of workspace that LaunchDiagnostics needs, for every problem.
std::int64_t DiagnosticsBytes();

// Enqueues the report of kernels/diagnostics.h on `stream`; *result lies in device memory. All
// memory must live until the stream passes this point.
cudaError_t LaunchDiagnostics(const AttentionParams& p, void* workspace,
                              AttentionDiagnostics* result, cudaStream_t stream);

}  // namespace attnd::cuda
