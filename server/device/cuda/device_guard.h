// Makes a device current on this thread for a while.
#pragma once

#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "kernels/cuda/cuda_status.h"
#include "server/device/cuda/cuda_log.h"

namespace attnd::cuda {

// The current device is a property of each thread; whoever calls the runtime on behalf of a device
// holds one of these. The device that was current before is current again afterwards.
class DeviceGuard {
 public:
  explicit DeviceGuard(int ordinal) {
    status_ = StatusFromCuda(cudaGetDevice(&previous_), "cudaGetDevice", __FILE__, __LINE__);
    if (!status_.ok() || previous_ == ordinal) return;
    status_ = StatusFromCuda(cudaSetDevice(ordinal), "cudaSetDevice", __FILE__, __LINE__);
    changed_ = status_.ok();
  }
  ~DeviceGuard() {
    if (changed_) LogIfFailed(cudaSetDevice(previous_), "cudaSetDevice");
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

  // Whether the device is current.
  const absl::Status& status() const { return status_; }

 private:
  int previous_ = 0;
  bool changed_ = false;
  absl::Status status_;
};

}  // namespace attnd::cuda
