#include "server/device/cuda/stream.h"

#include <utility>

#include "kernels/cuda/cuda_status.h"
#include "server/device/cuda/cuda_log.h"

namespace attnd::cuda {

absl::StatusOr<Stream> Stream::Create() {
  cudaStream_t stream = nullptr;
  RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return Stream(stream);
}

Stream::Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this != &other) {
    Reset();
    stream_ = std::exchange(other.stream_, nullptr);
  }
  return *this;
}

void Stream::Reset() {
  if (stream_ != nullptr)
    LogIfFailed(cudaStreamDestroy(std::exchange(stream_, nullptr)), "cudaStreamDestroy");
}

}  // namespace attnd::cuda
