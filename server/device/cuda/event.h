// An owned CUDA event that measures time and can be waited for with low latency.
#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/device/cuda/stream.h"

namespace attnd::cuda {

// Move-only, empty after a move. Can be recorded again and again; each use refers to the latest
// record.
class Event {
 public:
  static absl::StatusOr<Event> Create();

  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event() { Reset(); }

  // Marks the point that `stream` has been filled up to.
  absl::Status Record(const Stream& stream);
  // Makes what is enqueued on `stream` from now on wait for the recorded point.
  absl::Status HoldBack(const Stream& stream) const;
  // Blocks the calling thread until the recorded point is reached. Polls for as long as short work
  // takes, then sleeps: a sleeping thread wakes some 30 us late, and a polling one costs a core.
  absl::Status Wait() const;

  cudaEvent_t get() const { return event_; }

 private:
  explicit Event(cudaEvent_t event) : event_(event) {}
  void Reset();

  cudaEvent_t event_ = nullptr;
};

// Seconds of device time from `begin` to `end`, which have both been reached.
absl::StatusOr<double> SecondsBetween(const Event& begin, const Event& end);

}  // namespace attnd::cuda
