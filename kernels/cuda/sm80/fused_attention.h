// Launches the fused online-softmax kernel for 16-bit inputs on devices of compute capability 8.0
// and newer.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention_params.h"

namespace attnd::cuda::sm80 {

// Enqueues out = softmax(scores) v on `stream`, in one pass over k and v, for q, k and v of kDtype
// (float16 or bfloat16) whose head_dim and head_dim_v are multiples of 8 up to kHeadDim. kGeneral
// selects the variant of tile_traits.h. Rows of all tensors start at multiples of 16 bytes. probs
// is not written. All memory must live until the stream passes this point.
template <DataType kDtype, int kHeadDim, bool kGeneral>
cudaError_t LaunchFusedAttention(const AttentionParams& p, cudaStream_t stream);

}  // namespace attnd::cuda::sm80
