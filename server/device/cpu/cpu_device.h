// The CPU as a device: budgeted host memory and a pool of threads.
#pragma once

#include <memory>

#include "server/device/cpu/host_region.h"
#include "server/device/cpu/thread_pool.h"
#include "server/device/device.h"
#include "server/device/memory_pool.h"

namespace attnd {

class CpuDevice : public Device {
 public:
  CpuDevice(HostRegion device_region, HostRegion staging_region, int num_threads);

  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<Buffer> AllocateDevice(std::int64_t size_bytes) override {
    return device_pool_.Allocate(size_bytes);
  }
  absl::StatusOr<Buffer> AllocateStaging(std::int64_t size_bytes) override {
    return staging_pool_.Allocate(size_bytes);
  }
  PoolUsage device_usage() const override { return device_pool_.usage(); }
  PoolUsage staging_usage() const override { return staging_pool_.usage(); }
  // Works on the calling thread, with the pool's help.
  absl::StatusOr<StageSeconds> Run(const DeviceWork& work,
                                   absl::FunctionRef<absl::Status()> before_stage) override;
  absl::Status health() const override { return absl::OkStatus(); }

 private:
  // The regions outlive the pools that divide them.
  HostRegion device_region_;
  HostRegion staging_region_;
  MemoryPool device_pool_;
  MemoryPool staging_pool_;
  ThreadPool threads_;
  DeviceInfo info_;
};

}  // namespace attnd
