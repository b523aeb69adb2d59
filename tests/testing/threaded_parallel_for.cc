#include "tests/testing/threaded_parallel_for.h"

#include <atomic>
#include <thread>
#include <vector>

#include "kernels/guarded_task.h"

namespace attnd::testing {

void ThreadedParallelFor::Run(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> task) {
  std::atomic<std::int64_t> remaining = num_tasks;
  GuardedTask guarded(task);
  const auto work = [&] {
    for (std::int64_t i = remaining.fetch_sub(1); i > 0; i = remaining.fetch_sub(1)) guarded(i - 1);
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < num_threads_; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  guarded.Rethrow();
}

}  // namespace attnd::testing
