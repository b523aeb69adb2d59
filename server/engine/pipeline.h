// Takes admitted jobs over the device, several at the same time, so that the copies of one overlap
// the computing of another.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/device/device.h"
#include "server/engine/clock.h"
#include "server/engine/engine.h"
#include "server/engine/job.h"
#include "server/engine/queue_order.h"

namespace attnd {

// Thread-safe.
class Pipeline {
 public:
  // How long a job that waits for a worker may outlast its deadline or its caller's patience.
  static constexpr std::chrono::milliseconds kWatchInterval{5};

  // With the job if it succeeded. Otherwise the job, and all it held, is gone before the call.
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::unique_ptr<Job>>)>;

  // Jobs whose plan runs on the host go over `host`. `num_workers` >= 1. All outlive the pipeline.
  // Throws std::system_error, with none left running, where the system refuses a thread.
  Pipeline(Device* device, Device* host, const Clock* clock, int num_workers);
  // Finishes the jobs that are on the device; answers those that still wait with Unavailable.
  ~Pipeline();

  // Runs the job when its turn comes and calls `done` once, on a thread of the pipeline. The
  // deadline and cancellation are looked at while the job waits, every kWatchInterval, before each
  // stage and, where the CPU computes, between its tasks. A small job on a device with unified
  // memory runs on the calling thread at once: handing it to a worker would cost more than it does.
  void Submit(std::unique_ptr<Job> job, CallControl control, Done done);

 private:
  Pipeline(Device* device, Device* host, const Clock* clock);

  struct Task {
    std::unique_ptr<Job> job;
    CallControl control;
    Done done;
    absl::Time submitted;
  };

  void WorkerMain();
  void WatcherMain();
  // More jobs wait than there are workers about to take one.
  bool IsCrowded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return static_cast<int>(queue_.size()) > idle_workers_;
  }
  // Takes those who need not wait any longer out of the queue, each with the reason.
  std::vector<std::pair<Task, absl::Status>> TakeOverdue() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run(Task task);
  static void Fail(Task task, const absl::Status& status);
  bool IsSmall(const AttentionPlan& plan) const;

  Device* const device_;
  Device* const host_;
  const Clock* const clock_;

  std::mutex mu_;
  std::condition_variable work_;
  std::condition_variable crowded_;
  std::map<QueueOrder, Task> queue_ ABSL_GUARDED_BY(mu_);
  std::uint64_t arrivals_ ABSL_GUARDED_BY(mu_) = 0;
  int idle_workers_ ABSL_GUARDED_BY(mu_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  // Last, so that the threads see every other member made.
  std::vector<std::thread> workers_;
  std::thread watcher_;
};

}  // namespace attnd
