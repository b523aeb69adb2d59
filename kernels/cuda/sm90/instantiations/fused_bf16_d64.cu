#include "kernels/cuda/sm90/launch.cuh"

namespace attnd::cuda::sm90 {

template cudaError_t LaunchFusedAttention<DataType::kBFloat16, 64, 64, ScoreKind::kRaw>(
    const AttentionParams&, int, const Workspace&, cudaStream_t);
template cudaError_t LaunchFusedAttention<DataType::kBFloat16, 64, 64, ScoreKind::kCapped>(
    const AttentionParams&, int, const Workspace&, cudaStream_t);
template cudaError_t LaunchFusedAttention<DataType::kBFloat16, 64, 64, ScoreKind::kMasked>(
    const AttentionParams&, int, const Workspace&, cudaStream_t);
template cudaError_t LaunchFusedAttention<DataType::kBFloat16, 64, 64, ScoreKind::kSloped>(
    const AttentionParams&, int, const Workspace&, cudaStream_t);
template cudaError_t LaunchFusedAttention<DataType::kBFloat16, 64, 64, ScoreKind::kFinished>(
    const AttentionParams&, int, const Workspace&, cudaStream_t);
template cudaError_t LaunchFusedAttention<DataType::kBFloat16, 64, 64, ScoreKind::kFinishedMasked>(
    const AttentionParams&, int, const Workspace&, cudaStream_t);

}  // namespace attnd::cuda::sm90
