// The first founding generation of attention on CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/attention_params.h"

namespace attnd::cuda {

// Enqueues out = softmax(scores) v on `stream` as three kernels: scores to memory, softmax over
// each row, times v; and lse if asked for. Every option, dtype and stride that passes
// ValidateShape. Writes p.probs if asked for, and then keeps the scores there. `workspace` has
// NaiveWorkspaceBytes(p) bytes, aligned to 256. All memory must live until the stream passes this
// point.
cudaError_t LaunchNaive(const AttentionParams& p, void* workspace, cudaStream_t stream);
std::int64_t NaiveWorkspaceBytes(const AttentionParams& p);

}  // namespace attnd::cuda
