// Caller's memory that gRPC sends from without a copy, and the wait until it has let go of it.
#pragma once

#include <grpcpp/support/slice.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace attnd::internal {

// Counts the slices lent and not yet given back. gRPC may hold a slice after a call has ended:
// bytes of a cancelled call can still sit in the connection's write queue. The destructor therefore
// waits; by then the call, its request and every other holder under the caller's control must be
// gone.
class LentMemory {
 public:
  LentMemory() = default;
  LentMemory(const LentMemory&) = delete;
  LentMemory& operator=(const LentMemory&) = delete;
  ~LentMemory();

  // A slice over `bytes`, which must stay as they are until this object is destroyed.
  grpc::Slice Lend(std::span<const std::byte> bytes);

 private:
  std::atomic<std::int64_t> slices_out_{0};
};

}  // namespace attnd::internal
