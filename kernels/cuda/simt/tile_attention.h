// Launches tiled attention on plain multiply-adds, for inputs of any type and stride.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention_params.h"

namespace attnd::cuda::simt {

// Enqueues out = softmax(scores) v on `stream` for q, k and v of kDtype, all arithmetic in float32.
// kPasses 1: one pass over the keys with a running maximum and sum (online softmax); 2: the first
// finds maximum and sum, the second computes the scores again and sums weights times v. probs is
// not written. All memory must live until the stream passes this point.
template <DataType kDtype, int kPasses>
cudaError_t LaunchTileAttention(const AttentionParams& p, cudaStream_t stream);

}  // namespace attnd::cuda::simt
