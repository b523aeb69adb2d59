#include "server/device/cuda/event.h"

#include <chrono>
#include <utility>

#include "kernels/cuda/cuda_status.h"
#include "server/device/cuda/cuda_log.h"

namespace attnd::cuda {
namespace {

constexpr std::chrono::microseconds kPollTime{200};

}  // namespace

absl::StatusOr<Event> Event::Create() {
  cudaEvent_t event = nullptr;
  RETURN_IF_CUDA_ERROR(cudaEventCreateWithFlags(&event, cudaEventBlockingSync));
  return Event(event);
}

Event::Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}

Event& Event::operator=(Event&& other) noexcept {
  if (this != &other) {
    Reset();
    event_ = std::exchange(other.event_, nullptr);
  }
  return *this;
}

void Event::Reset() {
  if (event_ != nullptr)
    LogIfFailed(cudaEventDestroy(std::exchange(event_, nullptr)), "cudaEventDestroy");
}

absl::Status Event::Record(const Stream& stream) {
  RETURN_IF_CUDA_ERROR(cudaEventRecord(event_, stream.get()));
  return absl::OkStatus();
}

absl::Status Event::HoldBack(const Stream& stream) const {
  RETURN_IF_CUDA_ERROR(cudaStreamWaitEvent(stream.get(), event_, 0));
  return absl::OkStatus();
}

absl::Status Event::Wait() const {
  const auto give_up = std::chrono::steady_clock::now() + kPollTime;
  do {
    const cudaError_t error = cudaEventQuery(event_);
    if (error == cudaSuccess) return absl::OkStatus();
    if (error != cudaErrorNotReady)
      return StatusFromCuda(error, "cudaEventQuery", __FILE__, __LINE__);
    // "Not ready" is an answer, but the runtime files it as the last error.
    cudaGetLastError();
  } while (std::chrono::steady_clock::now() < give_up);
  RETURN_IF_CUDA_ERROR(cudaEventSynchronize(event_));
  return absl::OkStatus();
}

absl::StatusOr<double> SecondsBetween(const Event& begin, const Event& end) {
  float milliseconds = 0;
  RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
  return milliseconds * 1e-3;
}

}  // namespace attnd::cuda
