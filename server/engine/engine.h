// Takes checked problems through admission, the device and back. Knows nothing of gRPC.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/diagnostics.h"
#include "kernels/merge.h"
#include "server/device/device.h"
#include "server/engine/attention_plan.h"

namespace attnd {

// How a caller's wish to stop reaches work that waits or runs.
struct CallControl {
  absl::Time deadline = absl::InfiniteFuture();
  // May be empty. Called from any thread, from several at once, also under the engine's locks:
  // quick, and never back into the engine.
  std::function<bool()> cancelled = nullptr;
  int priority = 0;  // among those that wait, each level counts as having arrived a second earlier
                     // (QueueOrder)

  // OK, Cancelled or DeadlineExceeded, at the time `now`.
  absl::Status Check(absl::Time now = absl::Now()) const;
};

struct JobSeconds {
  double queue = 0;  // waiting for memory and for a turn on the device
  StageSeconds stages;
};

// One admitted request and the memory reserved for it. Write the inputs, submit, read the outputs.
// The device memory and the inputs' memory go back when the job is done, the outputs' memory when
// it is destroyed; on every other path destroying the job gives back all of it. Not thread-safe;
// may be destroyed on any thread, before its engine.
class AttentionJob {
 public:
  virtual ~AttentionJob() = default;
  virtual const AttentionPlan& plan() const = 0;
  virtual absl::Span<std::byte> input(
      InputTensor tensor) = 0;  // staging memory, to be filled; empty once the job is done
  virtual absl::Span<const std::byte> output(
      OutputTensor tensor) const = 0;                           // valid once the job is done
  virtual const AttentionDiagnostics* diagnostics() const = 0;  // nullptr unless asked for
  virtual const JobSeconds& seconds() const = 0;
};

// One admitted merge. Holds its bytes until it is destroyed, before its engine. Not thread-safe.
class MergeJob {
 public:
  virtual ~MergeJob() = default;
  // Merges on this thread; blocks only as long as that takes. Errors: DeadlineExceeded and
  // Cancelled, also while it merges, and then the output is incomplete; those of the device.
  virtual absl::Status Run(const CallControl& control) = 0;
  virtual const JobSeconds& seconds() const = 0;  // complete once it has run
};

struct EngineOptions {
  int max_queued_requests = 1024;                     // waiting for memory; the next is refused
  absl::Duration max_queue_wait = absl::Seconds(30);  // for calls without a deadline of their own
  int num_workers = 4;  // pieces of work on the device at the same time
};

// Thread-safe.
class Engine {
 public:
  virtual ~Engine() = default;

  // Reserves all the memory the plan needs, at once or when others give theirs back, and calls
  // `admitted` once: on this thread, or on one that serves all who wait, where it should be brief.
  // Errors: InvalidArgument if the plan could never fit the budgets; ResourceExhausted, with a
  // retry delay, when the queue is full or the wait is over; DeadlineExceeded, Cancelled;
  // Unavailable while draining or if the device is unhealthy.
  virtual void Admit(
      AttentionPlan plan, CallControl control,
      std::function<void(absl::StatusOr<std::unique_ptr<AttentionJob>>)> admitted) = 0;

  // Runs an admitted job whose inputs are complete and calls `done` once, on this thread or
  // another, with the job if it succeeded. Errors: DeadlineExceeded and Cancelled, within
  // milliseconds while the job waits for its turn, before the next task where the CPU computes it,
  // and else before the next stage; those of the device; Unavailable when the engine ends or the
  // device fails first.
  virtual void Submit(std::unique_ptr<AttentionJob> job, CallControl control,
                      std::function<void(absl::StatusOr<std::unique_ptr<AttentionJob>>)> done) = 0;

  // Admit, for a merge of partial results in host memory, which lives until the merge has run.
  // Errors as Admit's.
  virtual void AdmitMerge(
      const MergeParams& host_params, CallControl control,
      std::function<void(absl::StatusOr<std::unique_ptr<MergeJob>>)> admitted) = 0;

  virtual const Device& device() const = 0;
  virtual int requests_in_flight() const = 0;

  // Refuses what is new with Unavailable; what was admitted goes on.
  virtual void StartDraining() = 0;
  // Waits until nothing is in flight. False if `deadline` came first.
  virtual bool WaitUntilIdle(absl::Time deadline) = 0;
};

class Metrics;

// An engine on `device`. Counts into `metrics` and is its live source, unless it is nullptr. Both
// outlive the engine. ResourceExhausted, naming the setting, where the system refuses a thread.
absl::StatusOr<std::unique_ptr<Engine>> CreateEngine(const EngineOptions& options, Device& device,
                                                     Metrics* metrics);

}  // namespace attnd
