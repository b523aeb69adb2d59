#include "kernels/cuda/sm90/launch.cuh"

namespace attnd::cuda::sm90 {

template cudaError_t LaunchFusedAttention<DataType::kFloat16, 192, 128, ScoreKind::kRaw>(
    const AttentionParams&, int, int*, cudaStream_t);
template cudaError_t LaunchFusedAttention<DataType::kFloat16, 192, 128, ScoreKind::kCapped>(
    const AttentionParams&, int, int*, cudaStream_t);
template cudaError_t LaunchFusedAttention<DataType::kFloat16, 192, 128, ScoreKind::kFinished>(
    const AttentionParams&, int, int*, cudaStream_t);

}  // namespace attnd::cuda::sm90
