// A clock that a test moves by hand.
#pragma once

#include <mutex>

#include "absl/time/time.h"
#include "server/engine/clock.h"

namespace attnd {

// Thread-safe.
class FakeClock : public Clock {
 public:
  absl::Time Now() const override {
    const std::lock_guard lock(mu_);
    return now_;
  }

  void Advance(absl::Duration duration) {
    const std::lock_guard lock(mu_);
    now_ += duration;
  }

 private:
  mutable std::mutex mu_;
  absl::Time now_ = absl::FromUnixSeconds(1'000'000'000);
};

}  // namespace attnd
