#include "server/device/budget.h"

#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace attnd {
namespace {

TEST(BudgetTest, TakesUpToTheCapAndNotAByteMore) {
  Budget budget(100);
  EXPECT_TRUE(budget.TryTake(60));
  EXPECT_FALSE(budget.TryTake(41));
  EXPECT_TRUE(budget.TryTake(40));
  EXPECT_EQ(budget.usage().used_bytes, 100);
  EXPECT_FALSE(budget.TryTake(1));
  EXPECT_TRUE(budget.TryTake(0));
}

TEST(BudgetTest, AHugeRequestIsRefusedWithoutOverflow) {
  Budget budget(100);
  ASSERT_TRUE(budget.TryTake(50));
  EXPECT_FALSE(budget.TryTake(std::numeric_limits<std::int64_t>::max()));
  EXPECT_EQ(budget.usage().used_bytes, 50);
}

TEST(BudgetTest, HighWaterStaysWhenBytesComeBack) {
  Budget budget(100);
  ASSERT_TRUE(budget.TryTake(70));
  budget.Return(70);
  ASSERT_TRUE(budget.TryTake(30));
  EXPECT_EQ(budget.usage().used_bytes, 30);
  EXPECT_EQ(budget.usage().high_water_bytes, 70);
}

TEST(BudgetTest, ThreadsNeverTakeMoreThanTheCapTogether) {
  Budget budget(1000);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget, t] {
      const std::int64_t bytes = 101 + t;
      for (int i = 0; i < 5000; ++i) {
        if (budget.TryTake(bytes)) budget.Return(bytes);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.usage().used_bytes, 0);
  EXPECT_LE(budget.usage().high_water_bytes, 1000);
}

}  // namespace
}  // namespace attnd
