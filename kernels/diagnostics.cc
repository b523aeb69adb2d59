#include "kernels/diagnostics.h"

#include "kernels/cuda/cuda_backend.h"
#include "kernels/reference/diagnostics_cpu.h"

namespace attnd {

std::int64_t DiagnosticsWorkspaceBytes(const AttentionParams& p, const DeviceTraits& device) {
  return device.backend == Backend::kCuda ? DiagnosticsWorkspaceBytesCuda(p) : 0;
}

absl::Status RunDiagnostics(const AttentionParams& p, const ExecutionContext& context,
                            AttentionDiagnostics* result) {
  if (context.device.backend == Backend::kCuda) return RunDiagnosticsCuda(p, context, result);
  cpu::ComputeDiagnostics(p, context, result);
  return absl::OkStatus();
}

}  // namespace attnd
