#include "server/device/memory_pool.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/device/cpu/host_region.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;

class MemoryPoolTest : public ::testing::Test {
 protected:
  static constexpr std::int64_t kCapacity = 1 << 20;

  HostRegion region_ = *HostRegion::Create(kCapacity);
  MemoryPool pool_{"staging", region_.data(), kCapacity};
};

TEST_F(MemoryPoolTest, BuffersAreAlignedAndWritable) {
  const Buffer buffer = *pool_.Allocate(1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 256, 0u);
  EXPECT_EQ(buffer.size_bytes(), 1000);
  std::memset(buffer.data(), 0xAB, 1000);
}

TEST_F(MemoryPoolTest, UsageIsRoundedAndReturnsToZero) {
  {
    const Buffer a = *pool_.Allocate(1);
    const Buffer b = *pool_.Allocate(257);
    EXPECT_EQ(pool_.usage().used_bytes, 256 + 512);
  }
  EXPECT_EQ(pool_.usage().used_bytes, 0);
  EXPECT_EQ(pool_.usage().high_water_bytes, 256 + 512);
  EXPECT_EQ(pool_.usage().capacity_bytes, kCapacity);
}

TEST_F(MemoryPoolTest, AMovedBufferIsGivenBackOnce) {
  Buffer a = *pool_.Allocate(256);
  Buffer b = std::move(a);
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(pool_.usage().used_bytes, 256);
  b.Reset();
  EXPECT_EQ(pool_.usage().used_bytes, 0);
}

TEST_F(MemoryPoolTest, AFullPoolRefusesAndSaysHowMuchIsFree) {
  const Buffer most = *pool_.Allocate(kCapacity - 256);
  const absl::Status status = pool_.Allocate(512).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("512 bytes asked for, 256 of 1048576 free"));
  EXPECT_TRUE(pool_.Allocate(256).ok());
}

TEST_F(MemoryPoolTest, AFragmentedPoolRefusesWithoutKeepingTheBytes) {
  Buffer first = *pool_.Allocate(kCapacity / 4);
  const Buffer second = *pool_.Allocate(kCapacity / 2);
  first.Reset();
  EXPECT_EQ(pool_.Allocate(kCapacity / 2).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool_.usage().used_bytes, kCapacity / 2);
}

TEST_F(MemoryPoolTest, ImpossibleSizesAreRefused) {
  EXPECT_EQ(pool_.Allocate(0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pool_.Allocate(-1).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(pool_.Allocate(std::numeric_limits<std::int64_t>::max()).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(pool_.usage().used_bytes, 0);
}

TEST_F(MemoryPoolTest, AFreedBlockIsUsedAgain) {
  const std::byte* first = nullptr;
  {
    const Buffer buffer = *pool_.Allocate(4096);
    first = buffer.data();
  }
  EXPECT_EQ(pool_.Allocate(4096)->data(), first);
}

TEST_F(MemoryPoolTest, RandomUseOnManyThreadsGivesEveryByteBack) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937 random(t);
      std::vector<Buffer> live;
      for (int i = 0; i < 3000; ++i) {
        if (random() % 2 == 0 || live.empty()) {
          absl::StatusOr<Buffer> buffer = pool_.Allocate(1 + random() % 40000);
          if (!buffer.ok()) continue;
          // A block that another thread held too would be seen by ThreadSanitizer.
          std::memset(buffer->data(), t, static_cast<std::size_t>(buffer->size_bytes()));
          live.push_back(std::move(*buffer));
        } else {
          std::swap(live[random() % live.size()], live.back());
          live.pop_back();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool_.usage().used_bytes, 0);
  EXPECT_GT(pool_.usage().high_water_bytes, 0);
  EXPECT_LE(pool_.usage().high_water_bytes, kCapacity);
  EXPECT_TRUE(pool_.Allocate(kCapacity).ok());
}

}  // namespace
}  // namespace attnd
