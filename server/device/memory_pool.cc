#include "server/device/memory_pool.h"

#include <cassert>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace attnd {
namespace {

// Lets AddressSanitizer see a use after free in memory that never goes back to the system.
void ForbidAccess([[maybe_unused]] std::byte* data, [[maybe_unused]] std::int64_t size_bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(data, static_cast<std::size_t>(size_bytes));
#endif
}

void PermitAccess([[maybe_unused]] std::byte* data, [[maybe_unused]] std::int64_t size_bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(data, static_cast<std::size_t>(size_bytes));
#endif
}

}  // namespace

MemoryPool::MemoryPool(std::string name, std::byte* region, std::int64_t size_bytes)
    : name_(std::move(name)),
      region_(region),
      budget_(size_bytes / kBufferAlignment * kBufferAlignment),
      slab_(size_bytes) {}

MemoryPool::~MemoryPool() {
  const PoolUsage usage = budget_.usage();
  assert(usage.used_bytes == 0);
  PermitAccess(region_, usage.capacity_bytes);
}

absl::StatusOr<Buffer> MemoryPool::Allocate(std::int64_t size_bytes) {
  if (size_bytes < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, " memory: ", size_bytes, " bytes asked for, at least 1"));
  }
  const PoolUsage usage = budget_.usage();
  // The first comparison keeps the rounding from overflowing.
  if (size_bytes > usage.capacity_bytes || !budget_.TryTake(RoundUpToBuffer(size_bytes))) {
    return absl::ResourceExhaustedError(absl::StrCat(
        name_, " memory: ", size_bytes, " bytes asked for, ",
        usage.capacity_bytes - usage.used_bytes, " of ", usage.capacity_bytes, " free"));
  }
  std::optional<std::int64_t> offset;
  {
    const std::lock_guard lock(mu_);
    offset = slab_.Allocate(size_bytes);
  }
  if (!offset.has_value()) {
    budget_.Return(RoundUpToBuffer(size_bytes));
    return absl::ResourceExhaustedError(
        absl::StrCat(name_, " memory: no gap of ", size_bytes, " bytes, ",
                     usage.capacity_bytes - usage.used_bytes, " of ", usage.capacity_bytes,
                     " free in smaller ones"));
  }
  std::byte* data = region_ + *offset;
  PermitAccess(data, size_bytes);
  return Buffer(data, size_bytes, [this, data] { Free(data); });
}

void MemoryPool::Free(std::byte* data) {
  const std::int64_t offset = data - region_;
  std::int64_t size_bytes;
  {
    const std::lock_guard lock(mu_);
    size_bytes = slab_.Free(offset);
    // Under the lock: once it is released, the block may be somebody else's.
    ForbidAccess(data, size_bytes);
  }
  budget_.Return(size_bytes);
}

}  // namespace attnd
