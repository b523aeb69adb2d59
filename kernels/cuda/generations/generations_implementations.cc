#include "kernels/cuda/generations/generations_implementations.h"

#include "absl/strings/str_cat.h"
#include "kernels/attention_shape.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/generations/naive.h"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/simt/tile_attention.h"
#include "kernels/status_macros.h"

namespace attnd::cuda {
namespace {

absl::Status CheckDevice(const DeviceTraits& device) {
  if (device.compute_capability >= 80) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("device: compute capability ", device.compute_capability, "; 80 is needed"));
}

absl::Status SupportsTiled(const AttentionParams& p, const DeviceTraits& device) {
  if (p.seqlen_q > kMaxTiledSeqlen || p.seqlen_k > kMaxTiledSeqlen)
    return absl::UnimplementedError(absl::StrCat("seqlen: more than ", kMaxTiledSeqlen));
  if (p.probs != nullptr)
    return absl::UnimplementedError("probs: only the naive algorithm has them");
  return CheckDevice(device);
}

absl::Status SupportsNaive(const AttentionParams& p, const DeviceTraits& device) {
  const std::int64_t rows = CheckedMultiply(CheckedMultiply(p.batch_size, p.num_heads), p.seqlen_q);
  const std::int64_t row_bytes = static_cast<std::int64_t>(sizeof(float)) * (p.seqlen_k + 64);
  if (CheckedMultiply(rows, row_bytes) < 0)
    return absl::UnimplementedError("seqlen: a score matrix that does not fit in 63 bits of bytes");
  return CheckDevice(device);
}

std::int64_t NoWorkspace(const AttentionParams&, const DeviceTraits&) { return 0; }

std::int64_t ScoresWorkspace(const AttentionParams& p, const DeviceTraits&) {
  return NaiveWorkspaceBytes(p);
}

cudaStream_t StreamOf(const ExecutionContext& context) {
  return static_cast<cudaStream_t>(context.stream);
}

absl::Status RunNaive(const AttentionParams& p, const ExecutionContext& context) {
  RETURN_IF_CUDA_ERROR(LaunchNaive(p, context.workspace, StreamOf(context)));
  return absl::OkStatus();
}

template <int kPasses>
cudaError_t LaunchTiled(const AttentionParams& p, cudaStream_t stream) {
  switch (p.q.dtype) {
    case DataType::kFloat16:
      return simt::LaunchTileAttention<DataType::kFloat16, kPasses>(p, stream);
    case DataType::kBFloat16:
      return simt::LaunchTileAttention<DataType::kBFloat16, kPasses>(p, stream);
    default:
      return simt::LaunchTileAttention<DataType::kFloat32, kPasses>(p, stream);
  }
}

absl::Status RunTwoPass(const AttentionParams& p, const ExecutionContext& context) {
  RETURN_IF_CUDA_ERROR(LaunchTiled<2>(p, StreamOf(context)));
  return absl::OkStatus();
}

absl::Status RunOnline(const AttentionParams& p, const ExecutionContext& context) {
  RETURN_IF_CUDA_ERROR(LaunchTiled<1>(p, StreamOf(context)));
  return absl::OkStatus();
}

}  // namespace

KernelImplementation NaiveImplementation() {
  return {"naive", "cuda_naive", Backend::kCuda, SupportsNaive, ScoresWorkspace, RunNaive};
}

KernelImplementation TwoPassImplementation() {
  return {"two_pass", "cuda_two_pass", Backend::kCuda, SupportsTiled, NoWorkspace, RunTwoPass};
}

KernelImplementation OnlineImplementation() {
  return {"online", "cuda_online", Backend::kCuda, SupportsTiled, NoWorkspace, RunOnline};
}

}  // namespace attnd::cuda
