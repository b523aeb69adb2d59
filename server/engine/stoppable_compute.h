// Where a computation on the CPU notices that nobody waits for its result any more.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "kernels/kernel_registry.h"

namespace attnd {

// Runs compute(context), a computation that costs some `cost` (see ComputeCost), and asks `check`
// between its tasks, from the threads that run them and from several at once. From the first error
// on, tasks that have not started are left out, and that error is returned: what has been written
// is incomplete. A task that has started goes on to its end. Without context.parallel_for, as on
// CUDA, there are no tasks to ask between.
absl::Status ComputeUnlessStopped(const ExecutionContext& context, double cost,
                                  absl::FunctionRef<absl::Status()> check,
                                  absl::FunctionRef<absl::Status(const ExecutionContext&)> compute);

}  // namespace attnd
