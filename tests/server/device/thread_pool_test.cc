#include "server/device/cpu/thread_pool.h"

#include <atomic>
#include <barrier>
#include <cstdint>
#include <new>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace attnd {
namespace {

void ExpectEachTaskRunsOnce(ThreadPool& pool, std::int64_t num_tasks) {
  // Plain integers: a task that ran twice at once, or was not finished when Run returned, is a race
  // for ThreadSanitizer.
  std::vector<int> runs(num_tasks, 0);
  pool.Run(num_tasks, [&runs](std::int64_t i) { ++runs[i]; });
  for (std::int64_t i = 0; i < num_tasks; ++i)
    ASSERT_EQ(runs[i], 1) << "task " << i << " of " << num_tasks;
}

TEST(ThreadPoolTest, EachTaskRunsOnceAndIsFinishedWhenRunReturns) {
  ThreadPool pool(4);
  for (const std::int64_t num_tasks : {0, 1, 2, 3, 4, 5, 1000})
    ExpectEachTaskRunsOnce(pool, num_tasks);
}

TEST(ThreadPoolTest, ASingleThreadWorksAlone) {
  ThreadPool pool(1);
  EXPECT_EQ(pool.MaxParallelism(), 1);
  ExpectEachTaskRunsOnce(pool, 100);
}

TEST(ThreadPoolTest, ASingleTaskRunsOnTheCaller) {
  ThreadPool pool(4);
  std::thread::id ran_on;
  pool.Run(1, [&ran_on](std::int64_t) { ran_on = std::this_thread::get_id(); });
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

TEST(ThreadPoolTest, AsManyTasksRunAtOnceAsThereAreThreads) {
  constexpr int kThreads = 4;
  ThreadPool pool(kThreads);
  EXPECT_EQ(pool.MaxParallelism(), kThreads);
  // The barrier opens only if all tasks are running at the same time.
  std::barrier all_running(kThreads);
  pool.Run(kThreads, [&all_running](std::int64_t) { all_running.arrive_and_wait(); });
}

TEST(ThreadPoolTest, LoopsOfSeveralCallersRunAtTheSameTime) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&pool] {
      for (int round = 0; round < 200; ++round) ExpectEachTaskRunsOnce(pool, 1 + round % 17);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(ThreadPoolTest, ATaskMayItselfRunTasks) {
  ThreadPool pool(3);
  std::vector<std::vector<int>> runs(8, std::vector<int>(8, 0));
  pool.Run(8, [&](std::int64_t i) { pool.Run(8, [&](std::int64_t j) { ++runs[i][j]; }); });
  for (const std::vector<int>& inner : runs) EXPECT_EQ(inner, std::vector<int>(8, 1));
}

TEST(ThreadPoolTest, WhatATaskThrowsReachesTheCallerOnceNoTaskRuns) {
  ThreadPool pool(4);
  for (const std::int64_t num_tasks : {1, 2, 100}) {
    std::atomic<int> running = 0;
    const auto task = [&running](std::int64_t i) {
      ++running;
      if (i % 3 == 0) {
        --running;
        throw std::bad_alloc();
      }
      --running;
    };
    EXPECT_THROW(pool.Run(num_tasks, task), std::bad_alloc) << num_tasks;
    EXPECT_EQ(running, 0) << num_tasks;
    ExpectEachTaskRunsOnce(pool, 100);
  }
}

TEST(ThreadPoolTest, WhatAWorkersTaskThrowsReachesTheCaller) {
  ThreadPool pool(2);
  const std::thread::id caller = std::this_thread::get_id();
  std::barrier both_running(2);
  EXPECT_THROW(pool.Run(2,
                        [&](std::int64_t) {
                          both_running.arrive_and_wait();
                          if (std::this_thread::get_id() != caller) throw std::bad_alloc();
                        }),
               std::bad_alloc);
}

TEST(ThreadPoolTest, APoolCanBeDestroyedRightAfterItsLastLoop) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(4);
    ExpectEachTaskRunsOnce(pool, 5);
  }
}

TEST(ThreadPoolTest, TheProcessMayUseAtLeastOneProcessor) { EXPECT_GE(UsableProcessors(), 1); }

}  // namespace
}  // namespace attnd
