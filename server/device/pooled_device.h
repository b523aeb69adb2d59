// The memory of a device: two ranges taken at start, each divided by a pool.
#pragma once

#include <cstdint>
#include <utility>

#include "server/device/device.h"
#include "server/device/memory_pool.h"

namespace attnd {

// What the devices have in common. A region owns its range and tells data() and size_bytes().
template <typename DeviceRegion, typename StagingRegion>
class PooledDevice : public Device {
 public:
  const DeviceInfo& info() const final { return info_; }
  absl::StatusOr<Buffer> AllocateDevice(std::int64_t size_bytes) final {
    return device_pool_.Allocate(size_bytes);
  }
  absl::StatusOr<Buffer> AllocateStaging(std::int64_t size_bytes) final {
    return staging_pool_.Allocate(size_bytes);
  }
  PoolUsage device_usage() const final { return device_pool_.usage(); }
  PoolUsage staging_usage() const final { return staging_pool_.usage(); }

 protected:
  // Sets the sizes of memory in `info`.
  PooledDevice(DeviceInfo info, DeviceRegion device_region, StagingRegion staging_region)
      : device_region_(std::move(device_region)),
        staging_region_(std::move(staging_region)),
        device_pool_("device", device_region_.data(), device_region_.size_bytes()),
        staging_pool_("staging", staging_region_.data(), staging_region_.size_bytes()),
        info_(std::move(info)) {
    info_.device_memory_bytes = device_pool_.usage().capacity_bytes;
    info_.staging_memory_bytes = staging_pool_.usage().capacity_bytes;
  }

 private:
  // The regions outlive the pools that divide them.
  DeviceRegion device_region_;
  StagingRegion staging_region_;
  MemoryPool device_pool_;
  MemoryPool staging_pool_;
  DeviceInfo info_;
};

}  // namespace attnd
