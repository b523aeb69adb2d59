// An owned CUDA stream.
#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/statusor.h"

namespace attnd::cuda {

// Move-only, empty after a move. Destroying it does not wait for what is enqueued. Thread-safe as
// far as CUDA's streams are.
class Stream {
 public:
  // A stream of the current device that does not synchronise with the default stream.
  static absl::StatusOr<Stream> Create();

  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream() { Reset(); }

  cudaStream_t get() const { return stream_; }

 private:
  explicit Stream(cudaStream_t stream) : stream_(stream) {}
  void Reset();

  cudaStream_t stream_ = nullptr;
};

}  // namespace attnd::cuda
