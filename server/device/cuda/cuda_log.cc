#include "server/device/cuda/cuda_log.h"

#include "spdlog/spdlog.h"

namespace attnd::cuda {

void LogIfFailed(cudaError_t error, std::string_view call) {
  // At exit the runtime may go before static objects do, and takes everything with it.
  if (error == cudaSuccess || error == cudaErrorCudartUnloading) return;
  cudaGetLastError();
  spdlog::warn("CUDA: {} failed: {} ({})", call, cudaGetErrorName(error),
               cudaGetErrorString(error));
}

}  // namespace attnd::cuda
