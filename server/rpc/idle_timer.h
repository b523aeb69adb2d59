// Notices a client that lets a stream hang, or drags it out.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/alarm.h"

namespace attnd {

// Calls `expired` on a gRPC thread whenever `timeout` has passed since the last Touch, or the
// limit, until it is stopped. Thread-safe.
class IdleTimer : public std::enable_shared_from_this<IdleTimer> {
 public:
  // An infinite timeout never expires.
  static std::shared_ptr<IdleTimer> Start(absl::Duration timeout, std::function<void()> expired);

  // Something came from the client, or something is expected of it from now on.
  void Touch() { last_touch_nanos_.store(absl::GetCurrentTimeNanos(), std::memory_order_relaxed); }
  // Expires at `limit` at the latest, however often it is touched: at least `timeout` from now, or
  // it may be noticed late.
  void SetLimit(absl::Time limit) {
    limit_nanos_.store(absl::ToUnixNanos(limit), std::memory_order_relaxed);
  }
  // Since the last Touch.
  absl::Duration Quiet() const { return absl::Now() - LastTouch(); }
  // Whether it has come to that.
  bool Expired() const { return absl::Now() >= Expiry(); }
  // `expired` will not be called again; a call that is under way on another thread may still end
  // after this returns.
  void Stop();

 private:
  IdleTimer(absl::Duration timeout, std::function<void()> expired)
      : timeout_(timeout), expired_(std::move(expired)) {}

  absl::Time LastTouch() const {
    return absl::FromUnixNanos(last_touch_nanos_.load(std::memory_order_relaxed));
  }
  absl::Time Expiry() const;
  void Arm(absl::Time when);
  void OnAlarm();

  const absl::Duration timeout_;
  const std::function<void()> expired_;
  std::atomic<std::int64_t> last_touch_nanos_{0};
  std::atomic<std::int64_t> limit_nanos_{std::numeric_limits<std::int64_t>::max()};
  std::mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  // A new one each time: an alarm that is set again while its callback runs would destroy that
  // callback.
  std::unique_ptr<grpc::Alarm> alarm_ ABSL_GUARDED_BY(mu_);
};

}  // namespace attnd
