#include "server/rpc/idle_timer.h"

#include <algorithm>
#include <utility>

namespace attnd {

std::shared_ptr<IdleTimer> IdleTimer::Start(absl::Duration timeout, std::function<void()> expired) {
  std::shared_ptr<IdleTimer> timer(new IdleTimer(timeout, std::move(expired)));
  timer->Touch();
  if (timeout != absl::InfiniteDuration()) timer->Arm(absl::Now() + timeout);
  return timer;
}

void IdleTimer::Stop() {
  const std::lock_guard lock(mu_);
  stopped_ = true;
  alarm_.reset();
}

void IdleTimer::Arm(absl::Time when) {
  const std::lock_guard lock(mu_);
  if (stopped_) return;
  alarm_ = std::make_unique<grpc::Alarm>();
  // Weak, because the alarm keeps its callback, and with it what the callback holds, for as long as
  // it lives.
  alarm_->Set(absl::ToChronoTime(when), [weak = weak_from_this()](bool reached) {
    const std::shared_ptr<IdleTimer> timer = reached ? weak.lock() : nullptr;
    if (timer != nullptr) timer->OnAlarm();
  });
}

absl::Time IdleTimer::Expiry() const {
  const absl::Time limit = absl::FromUnixNanos(limit_nanos_.load(std::memory_order_relaxed));
  return std::min(LastTouch() + timeout_, limit);
}

void IdleTimer::OnAlarm() {
  const absl::Time expiry = Expiry();
  const absl::Time now = absl::Now();
  if (now < expiry) return Arm(expiry);
  expired_();
  Arm(now + timeout_);
}

}  // namespace attnd
