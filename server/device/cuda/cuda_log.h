// What destructors do about errors: they cannot return them.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace attnd::cuda {

// Logs `error` of `call` as a warning, unless it is none or the runtime is being unloaded.
void LogIfFailed(cudaError_t error, std::string_view call);

}  // namespace attnd::cuda
