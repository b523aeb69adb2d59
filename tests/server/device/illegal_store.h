// A kernel that ends a CUDA context.
#pragma once

#include <cuda_runtime_api.h>

namespace attnd {

// Enqueues a store to an address that no memory lies at.
cudaError_t LaunchIllegalStore(cudaStream_t stream);

}  // namespace attnd
