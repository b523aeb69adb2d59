// The fused online-softmax kernel for float32 inputs, in true float32.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention_params.h"

namespace attnd::cuda::float32 {

// Enqueues out = softmax(scores) v on `stream`, in one pass over k and v, for float32 q, k and v
// with any strides. probs is not written. All memory must live until the stream passes this point.
cudaError_t LaunchFusedAttention(const AttentionParams& p, cudaStream_t stream);

}  // namespace attnd::cuda::float32
