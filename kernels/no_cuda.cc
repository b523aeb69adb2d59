// The CUDA backend of a build without CUDA.
#include "kernels/cuda/cuda_backend.h"

namespace attnd {
namespace {

absl::Status NotInThisBuild() { return absl::UnimplementedError("this build has no CUDA backend"); }

}  // namespace

absl::Span<const KernelImplementation> CudaImplementations() { return {}; }

absl::Status RunMergeCuda(const MergeParams&, const ExecutionContext&) { return NotInThisBuild(); }

std::int64_t DiagnosticsWorkspaceBytesCuda(const AttentionParams&) { return 0; }

absl::Status RunDiagnosticsCuda(const AttentionParams&, const ExecutionContext&,
                                AttentionDiagnostics*) {
  return NotInThisBuild();
}

}  // namespace attnd
