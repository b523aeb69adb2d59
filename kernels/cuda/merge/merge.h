// Launches the kernel that combines partial results by their log-sum-exp.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/merge.h"

namespace attnd::cuda {

// Enqueues the merge that kernels/merge.h describes on `stream`, for parameters that have passed
// ValidateMerge. All memory must live until the stream passes this point.
cudaError_t LaunchMerge(const MergeParams& p, cudaStream_t stream);

}  // namespace attnd::cuda
