#include "kernels/cuda/sm80/fused_attention.cuh"

namespace attnd::cuda::sm80 {

template cudaError_t LaunchFusedAttention<DataType::kFloat16, 256, false>(const AttentionParams&,
                                                                          cudaStream_t);
template cudaError_t LaunchFusedAttention<DataType::kFloat16, 256, true>(const AttentionParams&,
                                                                         cudaStream_t);

}  // namespace attnd::cuda::sm80
