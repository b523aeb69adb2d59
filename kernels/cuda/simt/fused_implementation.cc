#include "kernels/cuda/simt/fused_implementation.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/simt/tile_attention.h"

namespace attnd::cuda::simt {
namespace {

absl::Status Supports(const AttentionParams& p, const DeviceTraits& device) {
  if (device.compute_capability < 80)
    return absl::UnimplementedError(
        absl::StrCat("device: compute capability ", device.compute_capability, "; 80 is needed"));
  if (p.q.dtype != DataType::kFloat32) return absl::UnimplementedError("q: dtype is not float32");
  if (p.probs != nullptr) return absl::UnimplementedError("probs: the fused kernel never has them");
  if (p.seqlen_q > kMaxTiledSeqlen || p.seqlen_k > kMaxTiledSeqlen)
    return absl::UnimplementedError(absl::StrCat("seqlen: more than ", kMaxTiledSeqlen));
  return absl::OkStatus();
}

std::int64_t WorkspaceBytes(const AttentionParams&, const DeviceTraits&) { return 0; }

absl::Status Run(const AttentionParams& p, const ExecutionContext& context) {
  RETURN_IF_CUDA_ERROR(
      (LaunchTileAttention<DataType::kFloat32, 1>(p, static_cast<cudaStream_t>(context.stream))));
  return absl::OkStatus();
}

}  // namespace

KernelImplementation FusedImplementation() {
  return {"fused", "cuda_fused_float32", Backend::kCuda, Supports, WorkspaceBytes, Run};
}

}  // namespace attnd::cuda::simt
