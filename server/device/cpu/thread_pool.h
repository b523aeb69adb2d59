// The threads that CPU kernels run on.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "kernels/guarded_task.h"
#include "kernels/parallel_for.h"

namespace attnd {

// Thread-safe: any number of threads may call Run at once, and a task may itself call Run. The
// caller works on its own loop until no task of it is left to start, so that a loop makes progress
// however busy the other threads are, and no nesting can deadlock. Idle threads sleep.
class ThreadPool : public ParallelFor {
 public:
  // `num_threads` >= 1 counts the caller of Run: num_threads - 1 threads are started. Throws
  // std::system_error, with none left running, where the system refuses one of them.
  explicit ThreadPool(int num_threads);
  // No Run may be in progress.
  ~ThreadPool() override;

  void Run(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> task) override;
  int MaxParallelism() const override { return static_cast<int>(workers_.size()) + 1; }

 private:
  ThreadPool() = default;

  // One call of Run. Lives on its caller's stack, and is listed while tasks of it may be left to
  // start.
  struct Loop {
    Loop(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> task)
        : num_tasks(num_tasks), task(task) {}

    bool AllStarted() const { return next_task.load(std::memory_order_relaxed) >= num_tasks; }
    // Runs tasks until all have been started.
    void Work();

    const std::int64_t num_tasks;
    GuardedTask task;
    // Written by every thread of the loop; kept off the line of the fields that they only read.
    alignas(64) std::atomic<std::int64_t> next_task{0};
    int helpers = 0;  // workers inside Work; guarded by mu_
    std::condition_variable helpers_gone;
  };

  void WorkerMain();
  // Wakes up to two workers, and each of them wakes two more: a wake-up costs its caller
  // microseconds, and so nobody pays for more than two.
  void WakeHelpers(const Loop& loop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A listed loop with a task left to start, or nullptr. Takes loops without one off the list.
  Loop* FindLoop() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Unlist(const Loop* loop) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::mutex mu_;
  std::condition_variable work_;
  std::vector<Loop*> loops_ ABSL_GUARDED_BY(mu_);
  int sleeping_workers_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> workers_;  // last, so that the threads see every other member made
};

// The number of processors this process may run on: its affinity mask, cut by its control group's
// CPU quota where there is one. At least 1.
int UsableProcessors();

}  // namespace attnd
