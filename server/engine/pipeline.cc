#include "server/engine/pipeline.h"

#include <utility>

#include "kernels/attention_shape.h"

namespace attnd {
namespace {

// A job of at most this many floating-point operations takes some 50 us of one core with the
// default kernel, of the order of the two thread switches that it is spared.
constexpr double kInlineFlops = 2e6;

}  // namespace

Pipeline::Pipeline(Device* device, Device* host, const Clock* clock, int num_workers)
    : device_(device), host_(host), clock_(clock) {
  workers_.reserve(num_workers);
  for (int i = 0; i < num_workers; ++i) workers_.emplace_back([this] { WorkerMain(); });
}

Pipeline::~Pipeline() {
  std::map<QueueOrder, Task> unserved;
  {
    const std::lock_guard lock(mu_);
    stopping_ = true;
    unserved.swap(queue_);
  }
  work_.notify_all();
  for (auto& [order, task] : unserved) {
    task.job.reset();
    task.done(absl::UnavailableError("the server is shutting down"));
  }
  for (std::thread& worker : workers_) worker.join();
}

void Pipeline::Submit(std::unique_ptr<Job> job, CallControl control, Done done) {
  const bool small = IsSmall(job->plan());
  const int priority = control.priority;
  Task task{std::move(job), std::move(control), std::move(done), clock_->Now()};
  if (small) return Run(std::move(task));
  {
    const std::lock_guard lock(mu_);
    queue_.emplace(QueueOrder{priority, arrivals_++}, std::move(task));
  }
  work_.notify_one();
}

bool Pipeline::IsSmall(const AttentionPlan& plan) const {
  return device_->info().unified_memory && AttentionFlops(plan.problem.params) <= kInlineFlops;
}

void Pipeline::WorkerMain() {
  std::unique_lock lock(mu_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (stopping_) return;
    Task task = std::move(queue_.extract(queue_.begin()).mapped());
    lock.unlock();
    Run(std::move(task));
    lock.lock();
  }
}

void Pipeline::Run(Task task) {
  task.job->AddQueueTime(clock_->Now() - task.submitted);
  const absl::Status status =
      task.job->Run(*device_, *host_, [&] { return task.control.Check(clock_->Now()); });
  if (status.ok()) return task.done(std::move(task.job));
  task.job.reset();
  task.done(status);
}

}  // namespace attnd
