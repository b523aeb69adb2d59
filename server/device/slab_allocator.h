// Divides one contiguous range into blocks. Keeps all of its records outside the range, so that the
// range may lie in memory that the host cannot, or should not, touch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace attnd {

// Best fit, lowest offset first among equals; neighbouring free blocks are joined at once. Freed
// blocks are therefore used again before untouched parts of the range are, which keeps pages warm
// and the touched part small. When nothing is in use the whole range is one block: whoever waits
// until the others are done always gets what fits the range. Costs O(log blocks). Not thread-safe.
class SlabAllocator {
 public:
  explicit SlabAllocator(std::int64_t size_bytes);

  // The offset of a block of `size_bytes` (> 0, rounded up), or nothing if no free block is large
  // enough.
  std::optional<std::int64_t> Allocate(std::int64_t size_bytes);
  // Takes back the block at `offset`, which Allocate returned. Returns its rounded size.
  std::int64_t Free(std::int64_t offset);

 private:
  struct Block {
    std::int64_t size_bytes = 0;
    bool free = false;
  };
  using BlockMap = std::map<std::int64_t, Block>;

  // Joins the free block at `left` with the block after it if that is free too.
  void JoinWithNext(BlockMap::iterator left);

  BlockMap blocks_;                                              // by offset; they tile the range
  std::set<std::pair<std::int64_t, std::int64_t>> free_blocks_;  // (size, offset)
};

}  // namespace attnd
