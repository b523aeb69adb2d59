// A ParallelFor for tests, with any number of threads.
#pragma once

#include "kernels/parallel_for.h"

namespace attnd::testing {

// Starts its threads anew for each Run. Tasks are handed out from the last to the first, so that
// work which relies on their order fails. Thread-safe.
class ThreadedParallelFor : public ParallelFor {
 public:
  explicit ThreadedParallelFor(int num_threads) : num_threads_(num_threads) {}

  void Run(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> task) override;
  int MaxParallelism() const override { return num_threads_; }

 private:
  int num_threads_;
};

}  // namespace attnd::testing
