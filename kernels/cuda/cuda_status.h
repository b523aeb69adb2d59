// cudaError_t -> absl::Status, the one way in which CUDA errors are reported.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "absl/status/status.h"

namespace attnd::cuda {

// OK for cudaSuccess; else Internal with the call as written, the error's name, its text, and where
// it was seen. Takes the error off the runtime's last-error slot, so that an unrelated later check
// does not report it again.
absl::Status StatusFromCuda(cudaError_t error, std::string_view call, const char* file, int line);

}  // namespace attnd::cuda

// Evaluates `call`, an expression of type cudaError_t, once; returns its status from the enclosing
// function if it failed.
#define RETURN_IF_CUDA_ERROR(call)                                                       \
  do {                                                                                   \
    const cudaError_t attnd_cuda_error = (call);                                         \
    if (attnd_cuda_error != cudaSuccess)                                                 \
      return ::attnd::cuda::StatusFromCuda(attnd_cuda_error, #call, __FILE__, __LINE__); \
  } while (false)
