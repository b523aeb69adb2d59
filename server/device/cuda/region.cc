#include "server/device/cuda/region.h"

#include <cuda_runtime_api.h>

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "server/device/cuda/cuda_log.h"
#include "spdlog/spdlog.h"

namespace attnd::cuda {
namespace {

constexpr std::int64_t kLeastPinnedBytes = std::int64_t{16} << 20;

}  // namespace

absl::StatusOr<DeviceRegion> DeviceRegion::Create(std::int64_t size_bytes) {
  if (size_bytes == 0) return DeviceRegion(nullptr, 0);
  void* data = nullptr;
  RETURN_IF_CUDA_ERROR(cudaMalloc(&data, static_cast<std::size_t>(size_bytes)));
  return DeviceRegion(static_cast<std::byte*>(data), size_bytes);
}

DeviceRegion::DeviceRegion(DeviceRegion&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

DeviceRegion& DeviceRegion::operator=(DeviceRegion&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
  }
  return *this;
}

void DeviceRegion::Reset() {
  if (data_ != nullptr) LogIfFailed(cudaFree(data_), "cudaFree");
  data_ = nullptr;
  size_bytes_ = 0;
}

absl::StatusOr<PinnedRegion> PinnedRegion::Create(std::int64_t size_bytes) {
  if (size_bytes == 0) return PinnedRegion(nullptr, 0);
  cudaError_t error = cudaSuccess;
  std::int64_t tried_bytes = size_bytes;
  do {
    void* data = nullptr;
    error = cudaHostAlloc(&data, static_cast<std::size_t>(tried_bytes), cudaHostAllocPortable);
    if (error == cudaSuccess) {
      if (tried_bytes < size_bytes) {
        spdlog::warn("staging_memory_bytes: {} could be pinned of the {} asked for", tried_bytes,
                     size_bytes);
      }
      return PinnedRegion(static_cast<std::byte*>(data), tried_bytes);
    }
    cudaGetLastError();
    tried_bytes /= 2;
  } while (tried_bytes >= kLeastPinnedBytes);
  return absl::ResourceExhaustedError(
      absl::StrCat("staging_memory_bytes: got ", size_bytes, ", which cannot be pinned, nor ",
                   tried_bytes * 2, ": ", cudaGetErrorString(error)));
}

PinnedRegion::PinnedRegion(PinnedRegion&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

PinnedRegion& PinnedRegion::operator=(PinnedRegion&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
  }
  return *this;
}

void PinnedRegion::Reset() {
  if (data_ != nullptr) LogIfFailed(cudaFreeHost(data_), "cudaFreeHost");
  data_ = nullptr;
  size_bytes_ = 0;
}

}  // namespace attnd::cuda
