// The two ranges of memory that a CUDA device's pools divide, taken whole at start: neither
// cudaMalloc nor cudaHostAlloc, which synchronise the device, is called later on.
//
// Work on a buffer has finished before the buffer is freed (see Buffer), so that there is no stream
// order to keep and a range divided on the host (MemoryPool) does without cudaMallocAsync's pools:
// no driver call on a request's path, a cap that holds to the byte, and a largest free block that
// is known.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace attnd::cuda {

// Owns memory of the device that was current when it was created. Move-only, empty after a move.
class DeviceRegion {
 public:
  // `size_bytes` >= 0. Internal, with CUDA's own words, when the device has less.
  static absl::StatusOr<DeviceRegion> Create(std::int64_t size_bytes);

  DeviceRegion(DeviceRegion&& other) noexcept;
  DeviceRegion& operator=(DeviceRegion&& other) noexcept;
  ~DeviceRegion() { Reset(); }

  std::byte* data() const { return data_; }
  std::int64_t size_bytes() const { return size_bytes_; }

 private:
  DeviceRegion(std::byte* data, std::int64_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
  void Reset();

  std::byte* data_ = nullptr;
  std::int64_t size_bytes_ = 0;
};

// Owns page-locked host memory that every device can copy from and to. Move-only, empty after a
// move.
class PinnedRegion {
 public:
  // `size_bytes` >= 0. Where the system does not let that much be pinned, half of it is tried, and
  // so on, with a warning; ResourceExhausted below 16 MiB.
  static absl::StatusOr<PinnedRegion> Create(std::int64_t size_bytes);

  PinnedRegion(PinnedRegion&& other) noexcept;
  PinnedRegion& operator=(PinnedRegion&& other) noexcept;
  ~PinnedRegion() { Reset(); }

  std::byte* data() const { return data_; }
  std::int64_t size_bytes() const { return size_bytes_; }

 private:
  PinnedRegion(std::byte* data, std::int64_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
  void Reset();

  std::byte* data_ = nullptr;
  std::int64_t size_bytes_ = 0;
};

}  // namespace attnd::cuda
