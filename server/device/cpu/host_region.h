// A range of ordinary host memory, taken from the system as it is first touched.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"

namespace attnd {

// Owns the range. Move-only, empty after a move.
class HostRegion {
 public:
  // A page-aligned range of `size_bytes` >= 0, zero, in huge pages where the system has them.
  // ResourceExhausted, with the system's own words, when the address space has no room.
  static absl::StatusOr<HostRegion> Create(std::int64_t size_bytes);
  // About the largest size, up to `size_bytes`, that Create would have room for.
  static std::int64_t LargestPossible(std::int64_t size_bytes);

  HostRegion(HostRegion&& other) noexcept;
  HostRegion& operator=(HostRegion&& other) noexcept;
  ~HostRegion();

  std::byte* data() const { return data_; }
  std::int64_t size_bytes() const { return size_bytes_; }

 private:
  HostRegion(std::byte* data, std::int64_t size_bytes) : data_(data), size_bytes_(size_bytes) {}
  void Reset();

  std::byte* data_ = nullptr;
  std::int64_t size_bytes_ = 0;
};

}  // namespace attnd
