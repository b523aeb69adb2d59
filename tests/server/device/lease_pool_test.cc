#include "server/device/lease_pool.h"

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace attnd {
namespace {

std::vector<std::unique_ptr<int>> Items(int count) {
  std::vector<std::unique_ptr<int>> items;
  for (int i = 0; i < count; ++i) items.push_back(std::make_unique<int>(i));
  return items;
}

TEST(LeasePoolTest, ALeaseComesBackByItself) {
  LeasePool<int> pool(Items(2));
  {
    const auto a = pool.Acquire();
    const auto b = pool.Acquire();
    EXPECT_NE(*a, *b);
    EXPECT_EQ(pool.idle_count(), 0u);
  }
  EXPECT_EQ(pool.idle_count(), 2u);
}

TEST(LeasePoolTest, AMovedLeaseComesBackOnce) {
  LeasePool<int> pool(Items(2));
  auto a = pool.Acquire();
  auto b = pool.Acquire();
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
      for (int i = 0; i < 500; ++i) ++*pool.Acquire();
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto a = pool.Acquire();
  const auto b = pool.Acquire();
  EXPECT_EQ(*a + *b, 0 + 1 + 4 * 500);
}

}  // namespace
}  // namespace attnd
