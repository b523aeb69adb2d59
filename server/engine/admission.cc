#include "server/engine/admission.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/engine/retry_info.h"

namespace attnd {
namespace {

// Bounds of the delay that the refused are told: no stampede, and nobody is sent away for long.
constexpr absl::Duration kMinRetryDelay = absl::Milliseconds(20);
constexpr absl::Duration kMaxRetryDelay = absl::Seconds(10);

// The settings that size the pools are called staging_memory_bytes and device_memory_bytes.
absl::Status CheckEverFits(const char* pool, std::int64_t need_bytes, std::int64_t capacity_bytes) {
  if (need_bytes <= capacity_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("needs ", need_bytes, " bytes of ", pool,
                                                 " memory, accepted: at most ", capacity_bytes,
                                                 " (", pool, "_memory_bytes)"));
}

RejectReason ReasonOf(const absl::Status& control_status) {
  return absl::IsCancelled(control_status) ? RejectReason::kCancelled : RejectReason::kDeadline;
}

template <typename Answers>
void Give(Answers due) {
  for (auto& [answer, result] : due) answer(std::move(result));
}

}  // namespace

Reservation& Reservation::operator=(Reservation&& other) noexcept {
  if (this != &other) {
    Reset();
    admission_ = std::exchange(other.admission_, nullptr);
    held_ = std::exchange(other.held_, {});
  }
  return *this;
}

void Reservation::ShrinkTo(MemoryNeed kept) {
  assert(admission_ != nullptr && kept.staging_bytes <= held_.staging_bytes &&
         kept.device_bytes <= held_.device_bytes);
  admission_->GiveBack(
      {held_.staging_bytes - kept.staging_bytes, held_.device_bytes - kept.device_bytes}, false);
  held_ = kept;
}

void Reservation::Reset() {
  if (admission_ != nullptr)
    std::exchange(admission_, nullptr)->GiveBack(std::exchange(held_, {}), true);
}

Admission::Admission(const AdmissionOptions& options, const Clock* clock, Metrics* metrics)
    : options_(options), clock_(clock), metrics_(metrics) {}

Admission::~Admission() { assert(in_flight_ == 0 && queue_.empty()); }

void Admission::Request(MemoryNeed need, CallControl control, Allocate allocate, Answer answer) {
  DueAnswers due;
  {
    const std::lock_guard lock(mu_);
    if (absl::Status refusal = CheckNewcomer(need, control); !refusal.ok()) {
      due.emplace_back(std::move(answer), std::move(refusal));
    } else {
      Enqueue({need, std::move(control), clock_->Now(), std::move(allocate), std::move(answer)},
              due);
    }
  }
  Give(std::move(due));
}

void Admission::Enqueue(Waiter waiter, DueAnswers& due) {
  const QueueOrder order(waiter.control.priority, waiter.arrived, arrivals_++);
  const auto place = queue_.emplace(order, std::move(waiter)).first;
  // Those who wait already are not answered on this thread.
  if (place == queue_.begin() && ServeFirst(due)) return;
  if (static_cast<int>(queue_.size()) > options_.max_queued_requests) {
    due.emplace_back(std::move(place->second.answer),
                     Rejected(RejectReason::kQueueFull, NoRoom("the queue is full")));
    queue_.erase(place);
    return;
  }
  // Whoever serves the waiters may have to wake earlier for this one.
  has_work_ = true;
  work_.notify_one();
}

absl::Status Admission::CheckNewcomer(const MemoryNeed& need, const CallControl& control) {
  if (draining_)
    return Rejected(RejectReason::kDraining, absl::UnavailableError("the server is shutting down"));
  absl::Status fits = CheckEverFits("staging", need.staging_bytes, options_.capacity.staging_bytes);
  fits.Update(CheckEverFits("device", need.device_bytes, options_.capacity.device_bytes));
  if (!fits.ok()) return Rejected(RejectReason::kNeverFits, fits);
  if (absl::Status status = control.Check(clock_->Now()); !status.ok())
    return Rejected(ReasonOf(status), status);
  return absl::OkStatus();
}

bool Admission::ServeFirst(DueAnswers& due) {
  Waiter& first = queue_.begin()->second;
  if (!Fits(first.need)) return false;
  absl::Status allocated = first.allocate();
  // No gap is large enough, but those who hold memory will make one. With nobody left to do so the
  // error stands.
  if (absl::IsResourceExhausted(allocated) && in_flight_ > 0) return false;
  if (allocated.ok()) {
    reserved_.staging_bytes += first.need.staging_bytes;
    reserved_.device_bytes += first.need.device_bytes;
    ++in_flight_;
    latest_wait_ = clock_->Now() - first.arrived;
    due.emplace_back(std::move(first.answer),
                     Admitted{Reservation(this, first.need), latest_wait_});
  } else {
    due.emplace_back(std::move(first.answer), std::move(allocated));
  }
  queue_.erase(queue_.begin());
  return true;
}

absl::Time Admission::ServeWaiters() {
  DueAnswers due;
  absl::Time next;
  {
    const std::lock_guard lock(mu_);
    has_work_ = false;
    ExpireWaiters(due);
    while (!queue_.empty() && ServeFirst(due)) {
    }
    next = NextWakeUp();
    if (Idle()) idle_.notify_all();
  }
  Give(std::move(due));
  return next;
}

void Admission::ExpireWaiters(DueAnswers& due) {
  const absl::Time now = clock_->Now();
  for (auto it = queue_.begin(); it != queue_.end();) {
    absl::Status overdue = OverdueStatus(it->second, now);
    if (overdue.ok()) {
      ++it;
      continue;
    }
    due.emplace_back(std::move(it->second.answer), std::move(overdue));
    it = queue_.erase(it);
  }
}

absl::Status Admission::OverdueStatus(const Waiter& waiter, absl::Time now) {
  if (absl::Status status = waiter.control.Check(now); !status.ok())
    return Rejected(ReasonOf(status), status);
  if (now < EndOfWait(waiter)) return absl::OkStatus();
  return Rejected(
      RejectReason::kQueueTimeout,
      NoRoom(
          absl::StrCat("no memory for ", absl::FormatDuration(options_.max_queue_wait)).c_str()));
}

absl::Time Admission::NextWakeUp() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [order, waiter] : queue_) {
    next = std::min(next, EndOfWait(waiter));
    if (waiter.control.cancelled) next = std::min(next, clock_->Now() + kCancellationPollInterval);
  }
  return next;
}

absl::Time Admission::EndOfWait(const Waiter& waiter) const {
  const bool has_deadline = waiter.control.deadline != absl::InfiniteFuture();
  return has_deadline ? waiter.control.deadline : waiter.arrived + options_.max_queue_wait;
}

bool Admission::AwaitWork(absl::Time time) {
  std::unique_lock lock(mu_);
  const auto ready = [this] { return has_work_ || stopped_; };
  if (time == absl::InfiniteFuture()) {
    work_.wait(lock, ready);
  } else {
    work_.wait_until(lock, absl::ToChronoTime(time), ready);
  }
  return !stopped_;
}

void Admission::StartDraining() {
  const std::lock_guard lock(mu_);
  draining_ = true;
}

void Admission::FailWaiters(RejectReason reason, const absl::Status& status) {
  Queue failed;
  {
    const std::lock_guard lock(mu_);
    failed.swap(queue_);
    if (Idle()) idle_.notify_all();
  }
  for (auto& [order, waiter] : failed) waiter.answer(Rejected(reason, status));
}

void Admission::Stop() {
  {
    const std::lock_guard lock(mu_);
    stopped_ = true;
  }
  work_.notify_all();
}

bool Admission::WaitUntilIdle(absl::Time deadline) {
  std::unique_lock lock(mu_);
  const auto idle = [this] { return Idle(); };
  if (deadline == absl::InfiniteFuture()) {
    idle_.wait(lock, idle);
    return true;
  }
  return idle_.wait_until(lock, absl::ToChronoTime(deadline), idle);
}

int Admission::in_flight() const {
  const std::lock_guard lock(mu_);
  return in_flight_;
}

int Admission::queue_length() const {
  const std::lock_guard lock(mu_);
  return static_cast<int>(queue_.size());
}

MemoryNeed Admission::reserved() const {
  const std::lock_guard lock(mu_);
  return reserved_;
}

bool Admission::Fits(const MemoryNeed& need) const {
  // Compared with what is left: sums of needs could overflow.
  return need.staging_bytes <= options_.capacity.staging_bytes - reserved_.staging_bytes &&
         need.device_bytes <= options_.capacity.device_bytes - reserved_.device_bytes;
}

absl::Status Admission::NoRoom(const char* why) const {
  const absl::Duration delay = std::clamp(latest_wait_, kMinRetryDelay, kMaxRetryDelay);
  return WithRetryDelay(absl::ResourceExhaustedError(
                            absl::StrCat(why, ": ", queue_.size() - 1, " others wait for memory")),
                        delay);
}

absl::Status Admission::Rejected(RejectReason reason, absl::Status status) const {
  if (metrics_ != nullptr) metrics_->RequestRejected(reason);
  return status;
}

void Admission::GiveBack(const MemoryNeed& need, bool all) {
  // Notified under the lock: whoever waits for idleness may destroy this object right after.
  const std::lock_guard lock(mu_);
  reserved_.staging_bytes -= need.staging_bytes;
  reserved_.device_bytes -= need.device_bytes;
  if (all) --in_flight_;
  if (!queue_.empty()) {
    has_work_ = true;
    work_.notify_one();
  }
  if (Idle()) idle_.notify_all();
}

}  // namespace attnd
