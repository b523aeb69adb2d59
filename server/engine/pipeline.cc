#include "server/engine/pipeline.h"

#include <utility>

#include "server/engine/compute_cost.h"
#include "server/engine/device_usable.h"

namespace attnd {
namespace {

// A job of at most this cost takes some 50 us of one core, of the order of the two thread switches
// that it is spared.
constexpr double kInlineCost = 2e6;

absl::Status ShuttingDown() { return absl::UnavailableError("the server is shutting down"); }

}  // namespace

Pipeline::Pipeline(Device* device, Device* host, const Clock* clock)
    : device_(device), host_(host), clock_(clock) {}

// Delegates, so that an exception on the way calls the destructor, which ends the threads started.
Pipeline::Pipeline(Device* device, Device* host, const Clock* clock, int num_workers)
    : Pipeline(device, host, clock) {
  workers_.reserve(num_workers);
  for (int i = 0; i < num_workers; ++i) workers_.emplace_back([this] { WorkerMain(); });
  watcher_ = std::thread([this] { WatcherMain(); });
}

Pipeline::~Pipeline() {
  std::map<QueueOrder, Task> unserved;
  {
    const std::lock_guard lock(mu_);
    stopping_ = true;
    unserved.swap(queue_);
  }
  work_.notify_all();
  crowded_.notify_all();
  for (auto& [order, task] : unserved) Fail(std::move(task), ShuttingDown());
  for (std::thread& worker : workers_) worker.join();
  if (watcher_.joinable()) watcher_.join();
}

void Pipeline::Submit(std::unique_ptr<Job> job, CallControl control, Done done) {
  const bool small = IsSmall(job->plan());
  const int priority = control.priority;
  Task task{std::move(job), std::move(control), std::move(done), clock_->Now()};
  if (small) return Run(std::move(task));
  std::unique_lock lock(mu_);
  if (stopping_) {
    // Nobody serves the queue any more.
    lock.unlock();
    return Fail(std::move(task), ShuttingDown());
  }
  const QueueOrder order(priority, task.submitted, arrivals_++);
  queue_.emplace(order, std::move(task));
  const bool crowded = IsCrowded();
  lock.unlock();
  work_.notify_one();
  if (crowded) crowded_.notify_one();
}

bool Pipeline::IsSmall(const AttentionPlan& plan) const {
  return device_->info().unified_memory && ComputeCost(plan) <= kInlineCost;
}

void Pipeline::WorkerMain() {
  std::unique_lock lock(mu_);
  for (;;) {
    ++idle_workers_;
    work_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_workers_;
    if (stopping_) return;
    Task task = std::move(queue_.extract(queue_.begin()).mapped());
    lock.unlock();
    Run(std::move(task));
    lock.lock();
  }
}

void Pipeline::WatcherMain() {
  std::unique_lock lock(mu_);
  while (!stopping_) {
    crowded_.wait(lock, [this] { return stopping_ || IsCrowded(); });
    std::vector<std::pair<Task, absl::Status>> overdue = TakeOverdue();
    if (overdue.empty()) {
      crowded_.wait_for(lock, kWatchInterval, [this] { return stopping_; });
      continue;
    }
    lock.unlock();
    for (auto& [task, status] : overdue) Fail(std::move(task), status);
    overdue.clear();
    lock.lock();
  }
}

std::vector<std::pair<Pipeline::Task, absl::Status>> Pipeline::TakeOverdue() {
  std::vector<std::pair<Task, absl::Status>> overdue;
  const absl::Time now = clock_->Now();
  for (auto it = queue_.begin(); it != queue_.end();) {
    absl::Status status = it->second.control.Check(now);
    if (status.ok()) {
      ++it;
      continue;
    }
    overdue.emplace_back(std::move(it->second), std::move(status));
    it = queue_.erase(it);
  }
  return overdue;
}

void Pipeline::Run(Task task) {
  task.job->AddQueueTime(clock_->Now() - task.submitted);
  absl::Status status = CheckDeviceUsable(*device_);
  if (status.ok()) {
    status = task.job->Run(*device_, *host_, [&] { return task.control.Check(clock_->Now()); });
  }
  if (!status.ok()) return Fail(std::move(task), status);
  task.done(std::move(task.job));
}

void Pipeline::Fail(Task task, const absl::Status& status) {
  task.job.reset();
  task.done(status);
}

}  // namespace attnd
