#include "server/device/slab_allocator.h"

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/device.h"

namespace attnd {
namespace {

TEST(SlabAllocatorTest, BlocksAreAlignedAndDoNotOverlap) {
  SlabAllocator slab(4096);
  EXPECT_EQ(slab.Allocate(1), 0);
  EXPECT_EQ(slab.Allocate(257), 256);
  EXPECT_EQ(slab.Allocate(256), 768);
}

TEST(SlabAllocatorTest, TheWholeRangeCanBeOneBlock) {
  SlabAllocator slab(1024);
  EXPECT_EQ(slab.Allocate(1024), 0);
  EXPECT_EQ(slab.Allocate(1), std::nullopt);
  EXPECT_EQ(slab.Free(0), 1024);
  EXPECT_EQ(slab.Allocate(1024), 0);
}

TEST(SlabAllocatorTest, ARangeSmallerThanTheAlignmentHasNoBlocks) {
  EXPECT_EQ(SlabAllocator(0).Allocate(1), std::nullopt);
  EXPECT_EQ(SlabAllocator(255).Allocate(1), std::nullopt);
}

TEST(SlabAllocatorTest, AnEnormousSizeIsRefusedWithoutOverflow) {
  SlabAllocator slab(1024);
  EXPECT_EQ(slab.Allocate(std::numeric_limits<std::int64_t>::max()), std::nullopt);
}

TEST(SlabAllocatorTest, FreedNeighboursJoinInEitherOrder) {
  for (const std::vector<std::int64_t>& order :
       {std::vector<std::int64_t>{0, 256, 512}, {512, 256, 0}, {0, 512, 256}, {256, 0, 512}}) {
    SlabAllocator slab(768);
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(slab.Allocate(256).has_value());
    for (const std::int64_t offset : order) slab.Free(offset);
    EXPECT_EQ(slab.Allocate(768), 0);
  }
}

TEST(SlabAllocatorTest, TheSmallestGapThatFitsIsUsedFirst) {
  SlabAllocator slab(1 << 20);
  ASSERT_EQ(slab.Allocate(1024), 0);
  ASSERT_EQ(slab.Allocate(256), 1024);
  ASSERT_EQ(slab.Allocate(512), 1280);
  ASSERT_EQ(slab.Allocate(256), 1792);
  slab.Free(0);
  slab.Free(1280);
  EXPECT_EQ(slab.Allocate(512), 1280);
  EXPECT_EQ(slab.Allocate(512), 0);
}

TEST(SlabAllocatorTest, RandomUseNeverOverlapsAndEndsAsOneBlock) {
  constexpr std::int64_t kSize = 1 << 20;
  SlabAllocator slab(kSize);
  std::mt19937 random(7);
  std::map<std::int64_t, std::int64_t> live;  // offset to rounded size
  for (int i = 0; i < 20000; ++i) {
    if (random() % 2 == 0) {
      const std::int64_t size = 1 + random() % 50000;
      const std::optional<std::int64_t> offset = slab.Allocate(size);
      if (!offset.has_value()) continue;
      const auto next = live.upper_bound(*offset);
      if (next != live.end()) {
        ASSERT_LE(*offset + size, next->first);
      }
      if (next != live.begin()) {
        ASSERT_LE(std::prev(next)->first + std::prev(next)->second, *offset);
      }
      ASSERT_LE(*offset + size, kSize);
      live[*offset] = RoundUpToBuffer(size);
    } else if (!live.empty()) {
      const auto victim = std::next(live.begin(), random() % live.size());
      ASSERT_EQ(slab.Free(victim->first), victim->second);
      live.erase(victim);
    }
  }
  for (const auto& [offset, size] : live) slab.Free(offset);
  EXPECT_EQ(slab.Allocate(kSize), 0);
}

}  // namespace
}  // namespace attnd
