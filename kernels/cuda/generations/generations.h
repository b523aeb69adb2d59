// The founding generations of attention on CUDA: small, measured, never the default.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/attention_params.h"

namespace attnd::cuda {

// Each enqueues out = softmax(scores) v on `stream` for every option, dtype and stride that passes
// ValidateShape, and lse if asked for. All memory must live until the stream passes this point.

// Three kernels: scores to memory, softmax over each row, times v. Writes p.probs if asked for, and
// then keeps the scores there. `workspace` has NaiveWorkspaceBytes(p) bytes, aligned to 256.
cudaError_t LaunchNaive(const AttentionParams& p, void* workspace, cudaStream_t stream);
std::int64_t NaiveWorkspaceBytes(const AttentionParams& p);

// One kernel, two passes over the keys: maximum and sum, then weights times v. No probs.
cudaError_t LaunchTwoPass(const AttentionParams& p, cudaStream_t stream);

// One kernel, one pass over the keys with a running maximum and sum. No probs.
cudaError_t LaunchOnline(const AttentionParams& p, cudaStream_t stream);

}  // namespace attnd::cuda
