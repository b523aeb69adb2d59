#include "server/device/lease_pool.h"

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace attnd {
namespace {

std::vector<std::unique_ptr<int>> Items(int count) {
  std::vector<std::unique_ptr<int>> items;
  for (int i = 0; i < count; ++i) items.push_back(std::make_unique<int>(i));
  return items;
}

// Waits for as long as it takes.
LeasePool<int>::Lease Acquire(LeasePool<int>& pool) {
  return *pool.Acquire([] { return absl::OkStatus(); });
}

TEST(LeasePoolTest, ALeaseComesBackByItself) {
  LeasePool<int> pool(Items(2));
  {
    const auto a = Acquire(pool);
    const auto b = Acquire(pool);
    EXPECT_NE(*a, *b);
    EXPECT_EQ(pool.idle_count(), 0u);
  }
  EXPECT_EQ(pool.idle_count(), 2u);
}

TEST(LeasePoolTest, AMovedLeaseComesBackOnce) {
  LeasePool<int> pool(Items(2));
  auto a = Acquire(pool);
  auto b = Acquire(pool);
  a = std::move(b);
  EXPECT_EQ(pool.idle_count(), 1u);
  const auto c = std::move(a);
  EXPECT_EQ(pool.idle_count(), 1u);
}

TEST(LeasePoolTest, AnItemIsNeverHeldTwice) {
  LeasePool<int> pool(Items(2));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&pool] {
      // Two holders of one item would race on it, for ThreadSanitizer to see.
      for (int i = 0; i < 500; ++i) ++*Acquire(pool);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto a = Acquire(pool);
  const auto b = Acquire(pool);
  EXPECT_EQ(*a + *b, 0 + 1 + 4 * 500);
}

TEST(LeasePoolTest, WhoeverNoLongerWantsAnItemStopsWaiting) {
  LeasePool<int> pool(Items(1));
  LeasePool<int>::Lease held = Acquire(pool);
  int asked = 0;
  const auto wanted_twice = [&asked] {
    return ++asked <= 2 ? absl::OkStatus() : absl::CancelledError("gone");
  };
  EXPECT_EQ(pool.Acquire(wanted_twice).status(), absl::CancelledError("gone"));
  EXPECT_EQ(asked, 3);
  held = {};
  EXPECT_EQ(pool.idle_count(), 1u);
}

TEST(LeasePoolTest, AnIdleItemIsLentWithoutAsking) {
  LeasePool<int> pool(Items(1));
  EXPECT_TRUE(pool.Acquire([] { return absl::CancelledError("gone"); }).ok());
}

}  // namespace
}  // namespace attnd
