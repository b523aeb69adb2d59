// How CPU code asks for threads without owning any.
#pragma once

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace attnd {

class ParallelFor {
 public:
  virtual ~ParallelFor() = default;

  // Calls task(i) once for each i in [0, num_tasks), on any thread and in any order, the caller's
  // thread included, and returns when all have returned. Results must not depend on which thread
  // runs which task. Where a task throws, those not started yet may be left out, and Run throws the
  // first exception once none is running.
  virtual void Run(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> task) = 0;

  // The most tasks that run at the same time.
  virtual int MaxParallelism() const = 0;
};

// parallel_for->Run(num_tasks, task), or all tasks in order on the calling thread where
// parallel_for is nullptr.
inline void RunTasks(ParallelFor* parallel_for, std::int64_t num_tasks,
                     absl::FunctionRef<void(std::int64_t)> task) {
  if (parallel_for != nullptr) {
    parallel_for->Run(num_tasks, task);
    return;
  }
  for (std::int64_t i = 0; i < num_tasks; ++i) task(i);
}

}  // namespace attnd
