// A CUDA device: two pools over memory taken at start, and lanes of streams.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "server/device/cuda/lane.h"
#include "server/device/cuda/region.h"
#include "server/device/device.h"
#include "server/device/lease_pool.h"
#include "server/device/memory_pool.h"

namespace attnd::cuda {

class CudaDevice : public Device {
 public:
  // See CreateCudaDevice.
  static absl::StatusOr<std::unique_ptr<Device>> Create(const CudaDeviceOptions& options);

  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<Buffer> AllocateDevice(std::int64_t size_bytes) override {
    return device_pool_.Allocate(size_bytes);
  }
  absl::StatusOr<Buffer> AllocateStaging(std::int64_t size_bytes) override {
    return staging_pool_.Allocate(size_bytes);
  }
  PoolUsage device_usage() const override { return device_pool_.usage(); }
  PoolUsage staging_usage() const override { return staging_pool_.usage(); }
  absl::StatusOr<StageSeconds> Run(const DeviceWork& work,
                                   absl::FunctionRef<absl::Status()> before_stage) override;
  absl::Status health() const override;

 private:
  CudaDevice(int ordinal, DeviceInfo info, DeviceRegion device_region, PinnedRegion staging_region,
             std::vector<std::unique_ptr<Lane>> lanes);

  // Remembers the first error that made the device unusable.
  void Latch(const absl::Status& error);

  const int ordinal_;
  DeviceInfo info_;
  // The regions outlive the pools that divide them.
  DeviceRegion device_region_;
  PinnedRegion staging_region_;
  MemoryPool device_pool_;
  MemoryPool staging_pool_;
  LeasePool<Lane> lanes_;

  mutable std::mutex mu_;
  absl::Status health_ ABSL_GUARDED_BY(mu_);
};

}  // namespace attnd::cuda
