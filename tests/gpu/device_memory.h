// Device memory and device facts for tests that call kernels directly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "kernels/kernel_registry.h"

namespace attnd::testing {

// What kernels are told of device 0; nullopt where there is no device.
std::optional<DeviceTraits> CudaDeviceTraits();

// The same device, said to have fewer multiprocessors. Kernels choose tiles by how many of them a
// problem would leave idle, and the Hopper kernel takes one block for each: with a single one every
// problem of more than a few rows is large, and one block computes all of it. The way to large
// problems for tests of ordinary size.
DeviceTraits WithMultiprocessors(DeviceTraits device, int num_multiprocessors);

// A block of device memory, freed at the end of its life. Move-only, empty after a move.
class DeviceMemory {
 public:
  // Fails with ResourceExhausted where the device has no room. Zero bytes are a valid size.
  static absl::StatusOr<DeviceMemory> Create(std::int64_t size_bytes);
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  std::byte* data() const { return data_; }
  std::int64_t size_bytes() const { return size_bytes_; }

  // Synchronous copies of all bytes from and to host memory, and filling with one byte.
  absl::Status CopyFrom(const std::byte* host);
  absl::Status CopyTo(std::byte* host) const;
  absl::Status Fill(std::byte value);

 private:
  DeviceMemory(std::byte* data, std::int64_t size_bytes) : data_(data), size_bytes_(size_bytes) {}

  std::byte* data_ = nullptr;
  std::int64_t size_bytes_ = 0;
};

// Copies between host and device memory in whichever direction the addresses say, synchronously.
absl::Status CopyBytes(std::byte* destination, const std::byte* source, std::int64_t size_bytes);

// Waits for all work on the device and returns its first error.
absl::Status SynchronizeDevice();

}  // namespace attnd::testing
