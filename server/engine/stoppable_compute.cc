#include "server/engine/stoppable_compute.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "kernels/parallel_for.h"

namespace attnd {
namespace {

// Some 50 us of one core: a thousand times what it takes to look at the clock, and still at once
// for whoever waits for the threads.
constexpr double kCostPerCheck = 2e6;

// Lends out the threads of another ParallelFor until the check fails. Thread-safe.
class StoppableParallelFor : public ParallelFor {
 public:
  StoppableParallelFor(ParallelFor* threads, double cost, absl::FunctionRef<absl::Status()> check)
      : threads_(threads), cost_(cost), check_(check) {}

  void Run(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> task) override {
    // Small tasks share a check, so that none pays much for it.
    const double most = static_cast<double>(num_tasks);
    const auto tasks_per_check =
        static_cast<std::int64_t>(std::max(1.0, std::min(most, kCostPerCheck * most / cost_)));
    threads_->Run(num_tasks, [&](std::int64_t i) {
      if (i % tasks_per_check == 0) Check();
      // Relaxed: what the flag stops needs nothing of what was written before it.
      if (!stopped_.load(std::memory_order_relaxed)) task(i);
    });
  }

  int MaxParallelism() const override { return threads_->MaxParallelism(); }

  // OK, or why tasks were left out. For the thread that has waited until every Run is over.
  const absl::Status& status() const { return status_; }

 private:
  void Check() {
    if (stopped_.load(std::memory_order_relaxed)) return;
    absl::Status status = check_();
    if (!status.ok() && !stopped_.exchange(true)) status_ = std::move(status);
  }

  ParallelFor* const threads_;
  const double cost_;
  const absl::FunctionRef<absl::Status()> check_;
  std::atomic<bool> stopped_ = false;
  absl::Status status_;
};

}  // namespace

absl::Status ComputeUnlessStopped(
    const ExecutionContext& context, double cost, absl::FunctionRef<absl::Status()> check,
    absl::FunctionRef<absl::Status(const ExecutionContext&)> compute) {
  if (context.parallel_for == nullptr) return compute(context);
  StoppableParallelFor threads(context.parallel_for, cost, check);
  ExecutionContext stoppable = context;
  stoppable.parallel_for = &threads;
  const absl::Status computed = compute(stoppable);
  return threads.status().ok() ? computed : threads.status();
}

}  // namespace attnd
