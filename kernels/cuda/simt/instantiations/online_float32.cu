#include "kernels/cuda/simt/tile_attention.cuh"

namespace attnd::cuda::simt {

template cudaError_t LaunchTileAttention<DataType::kFloat32, 1>(const AttentionParams&,
                                                                cudaStream_t);

}  // namespace attnd::cuda::simt
