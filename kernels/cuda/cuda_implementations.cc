#include <array>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/diagnostics/diagnostics.h"
#include "kernels/cuda/generations/generations_implementations.h"
#include "kernels/cuda/merge/merge.h"
#include "kernels/cuda/simt/fused_implementation.h"
#include "kernels/cuda/sm80/fused_implementation.h"
#include "kernels/cuda/sm90/fused_implementation.h"

namespace attnd {

absl::Span<const KernelImplementation> CudaImplementations() {
  static const std::array kImplementations = {
      cuda::sm90::FusedImplementation(), cuda::sm80::FusedImplementation(),
      cuda::simt::FusedImplementation(), cuda::OnlineImplementation(),
      cuda::TwoPassImplementation(),     cuda::NaiveImplementation()};
  return kImplementations;
}

absl::Status RunMergeCuda(const MergeParams& p, const ExecutionContext& context) {
  RETURN_IF_CUDA_ERROR(cuda::LaunchMerge(p, static_cast<cudaStream_t>(context.stream)));
  return absl::OkStatus();
}

std::int64_t DiagnosticsWorkspaceBytesCuda(const AttentionParams&) {
  return cuda::DiagnosticsBytes();
}

absl::Status RunDiagnosticsCuda(const AttentionParams& p, const ExecutionContext& context,
                                AttentionDiagnostics* result) {
  RETURN_IF_CUDA_ERROR(cuda::LaunchDiagnostics(p, context.workspace, result,
                                               static_cast<cudaStream_t>(context.stream)));
  return absl::OkStatus();
}

}  // namespace attnd
