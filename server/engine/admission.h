// Who gets memory, when, and who has to wait or is turned away.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/attention_plan.h"
#include "server/engine/clock.h"
#include "server/engine/engine.h"
#include "server/engine/queue_order.h"
#include "server/telemetry/metrics.h"

namespace attnd {

class Admission;

// Bytes that a request holds; given back when destroyed. Move-only, empty after a move.
class Reservation {
 public:
  Reservation() = default;
  Reservation(Reservation&& other) noexcept
      : admission_(std::exchange(other.admission_, nullptr)),
        held_(std::exchange(other.held_, {})) {}
  Reservation& operator=(Reservation&& other) noexcept;
  ~Reservation() { Reset(); }

  // Gives back all but `kept`, which must be no more than what is held.
  void ShrinkTo(MemoryNeed kept);

 private:
  friend class Admission;
  Reservation(Admission* admission, MemoryNeed held) : admission_(admission), held_(held) {}
  void Reset();

  Admission* admission_ = nullptr;
  MemoryNeed held_;
};

struct AdmissionOptions {
  MemoryNeed capacity;
  int max_queued_requests = 0;
  absl::Duration max_queue_wait;
};

struct Admitted {
  Reservation reservation;
  absl::Duration waited;
};

// Reserves a request's whole need or nothing. Those who have to wait are served strictly in
// QueueOrder: nobody behind overtakes the first in line, so that a large request is not starved by
// small ones that would still fit. Thread-safe.
class Admission {
 public:
  // Called with a lock held, when there is room: takes the memory from the pools. ResourceExhausted
  // means that they have no gap that is large enough just now; the request then waits on. Must not
  // call back.
  using Allocate = absl::AnyInvocable<absl::Status()>;
  // Called once, without a lock: on the requesting thread, or on the one that calls ServeWaiters or
  // FailWaiters.
  using Answer = absl::AnyInvocable<void(absl::StatusOr<Admitted>)>;

  // How long a cancelled waiter may go unnoticed.
  static constexpr absl::Duration kCancellationPollInterval = absl::Milliseconds(5);

  // `clock` and `metrics` (may be nullptr) outlive it.
  Admission(const AdmissionOptions& options, const Clock* clock, Metrics* metrics);
  // Nobody may wait or hold a reservation.
  ~Admission();

  // Errors: as Engine::Admit's.
  void Request(MemoryNeed need, CallControl control, Allocate allocate, Answer answer);

  // Answers everybody whose wait is over: admitted, past the deadline, or cancelled. Returns when
  // that will next be so without anything coming back before.
  absl::Time ServeWaiters();
  // Blocks until ServeWaiters has something to do: at `time` at the latest, or when memory came
  // back, somebody new waits, or Stop was called. False after Stop.
  bool AwaitWork(absl::Time time);

  // From now on answers whoever is new with Unavailable.
  void StartDraining();
  // Answers everybody who waits with `status`, and counts them under `reason`.
  void FailWaiters(RejectReason reason, const absl::Status& status);
  // Makes AwaitWork return false.
  void Stop();
  // Waits until nobody waits and nothing is held. False if `deadline` came first.
  bool WaitUntilIdle(absl::Time deadline);

  int in_flight() const;
  int queue_length() const;
  MemoryNeed reserved() const;

 private:
  friend class Reservation;

  struct Waiter {
    MemoryNeed need;
    CallControl control;
    absl::Time arrived;
    Allocate allocate;
    Answer answer;
  };
  using Queue = std::map<QueueOrder, Waiter>;
  // Answers that are due, to be given once the lock is released.
  using DueAnswers = std::vector<std::pair<Answer, absl::StatusOr<Admitted>>>;

  // What turns a request away whatever room there is; OK otherwise.
  absl::Status CheckNewcomer(const MemoryNeed& need, const CallControl& control)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Admits or refuses `waiter` at once, or lets it wait.
  void Enqueue(Waiter waiter, DueAnswers& due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Takes the first in line out of the queue, admitted or failed. False if it has to wait on.
  bool ServeFirst(DueAnswers& due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ExpireWaiters(DueAnswers& due) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status OverdueStatus(const Waiter& waiter, absl::Time now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Time NextWakeUp() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The last instant at which the waiter may be admitted.
  absl::Time EndOfWait(const Waiter& waiter) const;
  bool Fits(const MemoryNeed& need) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Why one that is in the queue is turned away.
  absl::Status NoRoom(const char* why) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status Rejected(RejectReason reason, absl::Status status) const;
  void GiveBack(const MemoryNeed& need, bool all);
  bool Idle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return in_flight_ == 0 && queue_.empty(); }

  const AdmissionOptions options_;
  const Clock* const clock_;
  Metrics* const metrics_;

  mutable std::mutex mu_;
  std::condition_variable work_;  // something for ServeWaiters
  std::condition_variable idle_;
  Queue queue_ ABSL_GUARDED_BY(mu_);
  std::uint64_t arrivals_ ABSL_GUARDED_BY(mu_) = 0;
  MemoryNeed reserved_ ABSL_GUARDED_BY(mu_);
  int in_flight_ ABSL_GUARDED_BY(mu_) = 0;
  // How long the one who was admitted last had to wait: what the next one is told to expect.
  absl::Duration latest_wait_ ABSL_GUARDED_BY(mu_);
  bool has_work_ ABSL_GUARDED_BY(mu_) = false;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace attnd
