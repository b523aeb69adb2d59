// A hard cap on bytes, with exact accounting.
#pragma once

#include <atomic>
#include <cstdint>

#include "server/device/device.h"

namespace attnd {

// Thread-safe, lock-free.
class Budget {
 public:
  explicit Budget(std::int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // Takes `bytes` (>= 0) if that many are left; false otherwise, and nothing is taken.
  bool TryTake(std::int64_t bytes);
  // Gives back bytes that were taken.
  void Return(std::int64_t bytes);

  PoolUsage usage() const;

 private:
  const std::int64_t capacity_bytes_;
  std::atomic<std::int64_t> used_bytes_{0};
  std::atomic<std::int64_t> high_water_bytes_{0};
};

}  // namespace attnd
