// SIGTERM and SIGINT as something that the main thread waits for, not as something that interrupts
// it.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace attnd {

// Move-only. Used by one thread.
class StopSignal {
 public:
  // Blocks both signals in the calling thread and in all that it starts from now on, and ignores
  // SIGPIPE: to be called before any other thread is started. Internal if the system refuses.
  static absl::StatusOr<StopSignal> Create();

  StopSignal(StopSignal&& other) noexcept;
  StopSignal& operator=(StopSignal&&) = delete;
  ~StopSignal();

  // True once for each signal, as soon as it comes; false if none has come within `timeout`.
  bool WaitFor(absl::Duration timeout);

 private:
  explicit StopSignal(int fd) : fd_(fd) {}

  int fd_ = -1;  // a signalfd
};

}  // namespace attnd
