#include "kernels/cuda/sm80/fused_attention.cuh"

namespace attnd::cuda::sm80 {

template cudaError_t LaunchFusedAttention<DataType::kFloat16, 96, false>(const AttentionParams&,
                                                                         cudaStream_t);
template cudaError_t LaunchFusedAttention<DataType::kFloat16, 96, true>(const AttentionParams&,
                                                                        cudaStream_t);

}  // namespace attnd::cuda::sm80
