// A CUDA device: two pools over memory taken at start, and lanes of streams.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "server/device/cuda/lane.h"
#include "server/device/cuda/region.h"
#include "server/device/lease_pool.h"
#include "server/device/pooled_device.h"

namespace attnd::cuda {

class CudaDevice final : public PooledDevice<DeviceRegion, PinnedRegion> {
 public:
  // See CreateCudaDevice.
  static absl::StatusOr<std::unique_ptr<Device>> Create(const CudaDeviceOptions& options);

  absl::StatusOr<StageSeconds> Run(const DeviceWork& work,
                                   absl::FunctionRef<absl::Status()> before_stage) override;
  absl::Status health() const override;

 private:
  CudaDevice(int ordinal, DeviceInfo info, DeviceRegion device_region, PinnedRegion staging_region,
             std::vector<std::unique_ptr<Lane>> lanes);

  // Remembers the first error that made the device unusable.
  void Latch(const absl::Status& error);

  const int ordinal_;
  LeasePool<Lane> lanes_;

  mutable std::mutex mu_;
  absl::Status health_ ABSL_GUARDED_BY(mu_);
};

}  // namespace attnd::cuda
