#include "server/engine/stoppable_compute.h"

#include <atomic>
#include <cstdint>

#include "gtest/gtest.h"
#include "kernels/parallel_for.h"
#include "server/device/cpu/thread_pool.h"

namespace attnd {
namespace {

constexpr double kManyFlops = 1e12;  // of any loop below: each task is worth a check
constexpr std::int64_t kTasks = 100;

// Runs tasks in order on the calling thread.
class InOrder : public ParallelFor {
 public:
  void Run(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> task) override {
    for (std::int64_t i = 0; i < num_tasks; ++i) task(i);
  }
  int MaxParallelism() const override { return 7; }
};

ExecutionContext ContextOf(ParallelFor& threads) {
  ExecutionContext context;
  context.parallel_for = &threads;
  return context;
}

TEST(StoppableComputeTest, WithoutAnErrorEveryTaskRunsOnce) {
  ThreadPool threads(3);
  for (const double flops : {0.0, 1.0, 2e7, kManyFlops}) {
    std::atomic<int> runs[kTasks] = {};
    const absl::Status status = ComputeUnlessStopped(
        ContextOf(threads), flops, [] { return absl::OkStatus(); },
        [&](const ExecutionContext& context) {
          context.parallel_for->Run(kTasks, [&](std::int64_t i) { ++runs[i]; });
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1) << flops;
  }
}

TEST(StoppableComputeTest, FromTheFirstErrorOnNoTaskOfAnyLoopStarts) {
  InOrder in_order;
  int checks = 0;
  int runs = 0;
  const absl::Status status = ComputeUnlessStopped(
      ContextOf(in_order), kManyFlops,
      [&] { return ++checks == 4 ? absl::CancelledError("caller gone") : absl::OkStatus(); },
      [&](const ExecutionContext& context) {
        for (int loop = 0; loop < 2; ++loop)
          context.parallel_for->Run(kTasks, [&](std::int64_t) { ++runs; });
        return absl::InternalError("made of what was left out");
      });
  EXPECT_EQ(status, absl::CancelledError("caller gone"));
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(checks, 4);
}

TEST(StoppableComputeTest, SeveralThreadsAgreeOnOneError) {
  ThreadPool threads(3);
  std::atomic<int> checks{0};
  std::atomic<int> runs{0};
  const absl::Status status = ComputeUnlessStopped(
      ContextOf(threads), kManyFlops,
      [&] { return ++checks > 10 ? absl::DeadlineExceededError("late") : absl::OkStatus(); },
      [&](const ExecutionContext& context) {
        context.parallel_for->Run(kTasks, [&](std::int64_t) { ++runs; });
        return absl::OkStatus();
      });
  EXPECT_EQ(status, absl::DeadlineExceededError("late"));
  EXPECT_LE(runs, 10);
}

TEST(StoppableComputeTest, SmallTasksShareACheck) {
  InOrder in_order;
  int checks = 0;
  const auto compute = [](const ExecutionContext& context) {
    EXPECT_EQ(context.parallel_for->MaxParallelism(), 7);
    context.parallel_for->Run(kTasks, [](std::int64_t) {});
    return absl::OkStatus();
  };
  const auto check = [&] {
    ++checks;
    return absl::OkStatus();
  };
  EXPECT_TRUE(ComputeUnlessStopped(ContextOf(in_order), 2e7, check, compute).ok());
  EXPECT_EQ(checks, 10);
  EXPECT_TRUE(ComputeUnlessStopped(ContextOf(in_order), 1.0, check, compute).ok());
  EXPECT_EQ(checks, 11);
}

TEST(StoppableComputeTest, WithoutThreadsTheComputationGoesToItsEnd) {
  const absl::Status status = ComputeUnlessStopped(
      {}, kManyFlops, [] { return absl::CancelledError("caller gone"); },
      [](const ExecutionContext& context) {
        EXPECT_EQ(context.parallel_for, nullptr);
        return absl::InternalError("its own");
      });
  EXPECT_EQ(status, absl::InternalError("its own"));
}

}  // namespace
}  // namespace attnd
