// The CPU as a device: budgeted host memory and a pool of threads.
#pragma once

#include <memory>

#include "server/device/cpu/host_region.h"
#include "server/device/cpu/thread_pool.h"
#include "server/device/pooled_device.h"

namespace attnd {

class CpuDevice final : public PooledDevice<HostRegion, HostRegion> {
 public:
  // Throws as ThreadPool's constructor does.
  CpuDevice(HostRegion device_region, HostRegion staging_region, int num_threads);

  // Works on the calling thread, with the pool's help.
  absl::StatusOr<StageSeconds> Run(const DeviceWork& work,
                                   absl::FunctionRef<absl::Status()> before_stage) override;
  absl::Status health() const override { return absl::OkStatus(); }

 private:
  ThreadPool threads_;
};

}  // namespace attnd
