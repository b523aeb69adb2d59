#include "tests/gpu/device_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "kernels/cuda/cuda_status.h"

namespace attnd::testing {

std::optional<DeviceTraits> CudaDeviceTraits() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) return std::nullopt;
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) return std::nullopt;
  DeviceTraits traits;
  traits.backend = Backend::kCuda;
  traits.compute_capability = 10 * properties.major + properties.minor;
  traits.num_multiprocessors = properties.multiProcessorCount;
  traits.shared_memory_per_block_bytes =
      static_cast<std::int64_t>(properties.sharedMemPerBlockOptin);
  return traits;
}

DeviceTraits WithMultiprocessors(DeviceTraits device, int num_multiprocessors) {
  device.num_multiprocessors = num_multiprocessors;
  return device;
}

absl::StatusOr<DeviceMemory> DeviceMemory::Create(std::int64_t size_bytes) {
  void* data = nullptr;
  if (cudaMalloc(&data, std::max<std::int64_t>(size_bytes, 1)) != cudaSuccess) {
    cudaGetLastError();
    return absl::ResourceExhaustedError("the device has no room for a test's memory");
  }
  return DeviceMemory(static_cast<std::byte*>(data), size_bytes);
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_bytes_, other.size_bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() { cudaFree(data_); }

absl::Status DeviceMemory::CopyFrom(const std::byte* host) {
  RETURN_IF_CUDA_ERROR(cudaMemcpy(data_, host, size_bytes_, cudaMemcpyHostToDevice));
  return absl::OkStatus();
}

absl::Status DeviceMemory::CopyTo(std::byte* host) const {
  RETURN_IF_CUDA_ERROR(cudaMemcpy(host, data_, size_bytes_, cudaMemcpyDeviceToHost));
  return absl::OkStatus();
}

absl::Status DeviceMemory::Fill(std::byte value) {
  RETURN_IF_CUDA_ERROR(cudaMemset(data_, static_cast<int>(value), size_bytes_));
  return absl::OkStatus();
}

absl::Status CopyBytes(std::byte* destination, const std::byte* source, std::int64_t size_bytes) {
  RETURN_IF_CUDA_ERROR(cudaMemcpy(destination, source, size_bytes, cudaMemcpyDefault));
  return absl::OkStatus();
}

absl::Status SynchronizeDevice() {
  RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  return absl::OkStatus();
}

}  // namespace attnd::testing
