// Where the engine gets the time from: passed in, so that tests of deadlines need not wait.
#pragma once

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace attnd {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Time Now() const = 0;
};

class SystemClock : public Clock {
 public:
  absl::Time Now() const override { return absl::Now(); }
};

}  // namespace attnd
