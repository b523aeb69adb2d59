#include "server/device/cpu/host_region.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace attnd {

namespace {

// No reserve: a budget is a cap, and memory that no request ever needs is not asked of the system.
void* Map(std::int64_t size_bytes) {
  return mmap(nullptr, static_cast<std::size_t>(size_bytes), PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

}  // namespace

absl::StatusOr<HostRegion> HostRegion::Create(std::int64_t size_bytes) {
  if (size_bytes == 0) return HostRegion(nullptr, 0);
  void* data = Map(size_bytes);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "host memory: ", size_bytes, " bytes cannot be mapped: ", std::strerror(errno)));
  }
  // Faulting in 4 KiB pages costs more than copying into them. Advice only: where it is refused,
  // pages stay small.
  madvise(data, static_cast<std::size_t>(size_bytes), MADV_HUGEPAGE);
  return HostRegion(static_cast<std::byte*>(data), size_bytes);
}

std::int64_t HostRegion::LargestPossible(std::int64_t size_bytes) {
  constexpr std::int64_t kPrecisionBytes = std::int64_t{1} << 20;
  std::int64_t possible = 0;
  std::int64_t impossible = size_bytes;
  while (impossible - possible > kPrecisionBytes) {
    const std::int64_t tried = possible + (impossible - possible) / 2;
    void* data = Map(tried);
    (data == MAP_FAILED ? impossible : possible) = tried;
    if (data != MAP_FAILED) munmap(data, static_cast<std::size_t>(tried));
  }
  return possible;
}

HostRegion::HostRegion(HostRegion&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)) {}

HostRegion& HostRegion::operator=(HostRegion&& other) noexcept {
  if (this != &other) {
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
  }
  return *this;
}

HostRegion::~HostRegion() { Reset(); }

void HostRegion::Reset() {
  if (data_ != nullptr) munmap(data_, static_cast<std::size_t>(size_bytes_));
  data_ = nullptr;
  size_bytes_ = 0;
}

}  // namespace attnd
