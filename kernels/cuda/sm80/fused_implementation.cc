#include "kernels/cuda/sm80/fused_implementation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/alignment.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/finished_scores.h"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/sm80/fused_attention.h"
#include "kernels/cuda/sm80/tile_traits.h"
#include "kernels/status_macros.h"

namespace attnd::cuda::sm80 {
namespace {

absl::Status CheckAligned(const AttentionParams& p) {
  const struct {
    absl::string_view name;
    bool aligned;
  } tensors[] = {{"q", RowsAligned(p.q)},
                 {"k", RowsAligned(p.k)},
                 {"v", RowsAligned(p.v)},
                 {"out", RowsAligned(p.out)}};
  for (const auto& tensor : tensors) {
    if (!tensor.aligned)
      return absl::UnimplementedError(
          absl::StrCat(tensor.name, ": rows that do not start at multiples of 16 bytes"));
  }
  return absl::OkStatus();
}

absl::Status Supports(const AttentionParams& p, const DeviceTraits& device) {
  if (device.compute_capability < 80)
    return absl::UnimplementedError(
        absl::StrCat("device: compute capability ", device.compute_capability, "; 80 is needed"));
  if (p.q.dtype == DataType::kFloat32)
    return absl::UnimplementedError("q: dtype float32; float16 or bfloat16 is needed");
  if (p.probs != nullptr) return absl::UnimplementedError("probs: the fused kernel never has them");
  if (p.seqlen_q > kMaxTiledSeqlen || p.seqlen_k > kMaxTiledSeqlen)
    return absl::UnimplementedError(absl::StrCat("seqlen: more than ", kMaxTiledSeqlen));
  return CheckAligned(p);
}

std::int64_t WorkspaceBytes(const AttentionParams&, const DeviceTraits&) { return 0; }

bool NeedsGeneralVariant(const AttentionParams& p) {
  return NeedsFinishedScores(p) || p.mask.data != nullptr;
}

// Few query rows, or too few large tiles to give every multiprocessor one: twice as many half as
// large finish sooner.
template <int kHeadDim>
bool IsSmall(const AttentionParams& p, const DeviceTraits& device) {
  if (p.seqlen_q <= kShortSeqlenQ) return true;
  const std::int64_t tiles_per_head = (p.seqlen_q - 1) / FusedTile<kHeadDim, false>::kBlockM + 1;
  return p.batch_size * p.num_heads * tiles_per_head < device.num_multiprocessors;
}

// The plain variant where it computes `p` and has the shared memory; the general one for all else
// and for small problems. Both give a row the same bits, so the choice may look at the whole batch.
template <DataType kDtype, int kHeadDim>
cudaError_t LaunchVariant(const AttentionParams& p, const ExecutionContext& context) {
  const auto stream = static_cast<cudaStream_t>(context.stream);
  const bool fits =
      FusedTile<kHeadDim, false>::kSharedBytes <= context.device.shared_memory_per_block_bytes;
  if (NeedsGeneralVariant(p) || IsSmall<kHeadDim>(p, context.device) || !fits)
    return LaunchFusedAttention<kDtype, kHeadDim, true>(p, stream);
  return LaunchFusedAttention<kDtype, kHeadDim, false>(p, stream);
}

template <DataType kDtype>
cudaError_t LaunchHeadDim(const AttentionParams& p, const ExecutionContext& context) {
  const std::int64_t head_dim = std::max(p.head_dim, p.head_dim_v);
  if (head_dim <= 32) return LaunchVariant<kDtype, 32>(p, context);
  if (head_dim <= 64) return LaunchVariant<kDtype, 64>(p, context);
  if (head_dim <= 96) return LaunchVariant<kDtype, 96>(p, context);
  if (head_dim <= 128) return LaunchVariant<kDtype, 128>(p, context);
  if (head_dim <= 192) return LaunchVariant<kDtype, 192>(p, context);
  return LaunchVariant<kDtype, 256>(p, context);
}

absl::Status Run(const AttentionParams& p, const ExecutionContext& context) {
  RETURN_IF_ERROR(CheckAligned(p));
  if (p.q.dtype == DataType::kFloat16) {
    RETURN_IF_CUDA_ERROR(LaunchHeadDim<DataType::kFloat16>(p, context));
  } else {
    RETURN_IF_CUDA_ERROR(LaunchHeadDim<DataType::kBFloat16>(p, context));
  }
  return absl::OkStatus();
}

}  // namespace

KernelImplementation FusedImplementation() {
  return {"fused", "cuda_fused_sm80", Backend::kCuda, Supports, WorkspaceBytes, Run};
}

}  // namespace attnd::cuda::sm80
