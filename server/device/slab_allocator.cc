#include "server/device/slab_allocator.h"

#include <cassert>
#include <iterator>

#include "server/device/device.h"

namespace attnd {

SlabAllocator::SlabAllocator(std::int64_t size_bytes) {
  const std::int64_t whole_bytes = size_bytes / kBufferAlignment * kBufferAlignment;
  if (whole_bytes == 0) return;
  blocks_.emplace(0, Block{whole_bytes, true});
  free_blocks_.emplace(whole_bytes, 0);
}

std::optional<std::int64_t> SlabAllocator::Allocate(std::int64_t size_bytes) {
  assert(size_bytes > 0);
  const auto fit = free_blocks_.lower_bound({size_bytes, 0});
  if (fit == free_blocks_.end()) return std::nullopt;
  // Only now is rounding safe from overflow; it cannot exceed the block, whose size is rounded as
  // well.
  const std::int64_t taken_bytes = RoundUpToBuffer(size_bytes);
  const auto [block_bytes, offset] = *fit;
  free_blocks_.erase(fit);
  blocks_[offset] = {taken_bytes, false};
  if (block_bytes > taken_bytes) {
    blocks_.emplace(offset + taken_bytes, Block{block_bytes - taken_bytes, true});
    free_blocks_.emplace(block_bytes - taken_bytes, offset + taken_bytes);
  }
  return offset;
}

std::int64_t SlabAllocator::Free(std::int64_t offset) {
  const auto block = blocks_.find(offset);
  assert(block != blocks_.end() && !block->second.free);
  const std::int64_t size_bytes = block->second.size_bytes;
  block->second.free = true;
  free_blocks_.emplace(size_bytes, offset);
  JoinWithNext(block);
  if (block != blocks_.begin() && std::prev(block)->second.free) JoinWithNext(std::prev(block));
  return size_bytes;
}

void SlabAllocator::JoinWithNext(BlockMap::iterator left) {
  const auto right = std::next(left);
  if (right == blocks_.end() || !right->second.free) return;
  free_blocks_.erase({left->second.size_bytes, left->first});
  free_blocks_.erase({right->second.size_bytes, right->first});
  left->second.size_bytes += right->second.size_bytes;
  free_blocks_.emplace(left->second.size_bytes, left->first);
  blocks_.erase(right);
}

}  // namespace attnd
