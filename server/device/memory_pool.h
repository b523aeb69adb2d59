// Buffers out of one region of memory that is set aside at start, within its size as a hard cap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "server/device/budget.h"
#include "server/device/device.h"
#include "server/device/slab_allocator.h"

namespace attnd {

// Thread-safe. Serves ordinary, pinned and device memory alike: it never touches the region, which
// belongs to whoever made the pool and outlives it.
class MemoryPool {
 public:
  // `name` appears in errors ("staging").
  MemoryPool(std::string name, std::byte* region, std::int64_t size_bytes);
  // Every buffer must have been given back.
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // A buffer of `size_bytes` >= 1, aligned to 256 bytes (as is the region), contents undefined. It
  // counts, rounded up to 256 bytes, as used until it is destroyed, which must happen before the
  // pool is. InvalidArgument for sizes below 1; ResourceExhausted if the cap has no room now or no
  // gap is large enough.
  absl::StatusOr<Buffer> Allocate(std::int64_t size_bytes);

  PoolUsage usage() const { return budget_.usage(); }

 private:
  void Free(std::byte* data);

  const std::string name_;
  std::byte* const region_;
  Budget budget_;
  std::mutex mu_;
  SlabAllocator slab_ ABSL_GUARDED_BY(mu_);
};

}  // namespace attnd
