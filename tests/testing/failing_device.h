// A device that passes everything on to another one, and fails where a test tells it to.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "kernels/status_macros.h"
#include "server/device/device.h"

namespace attnd {

enum class Stage { kCopyIn, kCompute, kCopyOut };

// Thread-safe. Hooks are set before the device is used.
class FailingDevice : public Device {
 public:
  explicit FailingDevice(std::unique_ptr<Device> device)
      : device_(std::move(device)), info_(device_->info()) {}

  // Called before each allocation, and before each stage, after the work's own check: an error
  // takes the place of what would have been done. Stages are told apart by counting, which is right
  // as long as no more pieces of work run than the device takes at once.
  std::function<absl::Status()> on_allocate;
  std::function<absl::Status(Stage)> on_stage;

  // The device claims to have memory of its own, or to be of another kind.
  void set_unified_memory(bool unified) { info_.unified_memory = unified; }
  void set_traits(const DeviceTraits& traits) { info_.traits = traits; }

  // The device is lost from now on.
  void Break(absl::Status health) {
    const std::lock_guard lock(mu_);
    health_ = std::move(health);
  }

  const DeviceInfo& info() const override { return info_; }

  absl::StatusOr<Buffer> AllocateDevice(std::int64_t size_bytes) override {
    if (on_allocate) RETURN_IF_ERROR(on_allocate());
    return device_->AllocateDevice(size_bytes);
  }

  absl::StatusOr<Buffer> AllocateStaging(std::int64_t size_bytes) override {
    if (on_allocate) RETURN_IF_ERROR(on_allocate());
    return device_->AllocateStaging(size_bytes);
  }

  PoolUsage device_usage() const override { return device_->device_usage(); }
  PoolUsage staging_usage() const override { return device_->staging_usage(); }

  absl::StatusOr<StageSeconds> Run(const DeviceWork& work,
                                   absl::FunctionRef<absl::Status()> before_stage) override {
    int stage = 0;
    return device_->Run(work, [&]() -> absl::Status {
      RETURN_IF_ERROR(before_stage());
      const auto current = static_cast<Stage>(stage++);
      return on_stage ? on_stage(current) : absl::OkStatus();
    });
  }

  absl::Status health() const override {
    const std::lock_guard lock(mu_);
    return health_.ok() ? device_->health() : health_;
  }

 private:
  const std::unique_ptr<Device> device_;
  DeviceInfo info_;
  mutable std::mutex mu_;
  absl::Status health_;
};

}  // namespace attnd
