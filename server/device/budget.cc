#include "server/device/budget.h"

#include <cassert>

namespace attnd {
namespace {

void RaiseTo(std::atomic<std::int64_t>& value, std::int64_t floor) {
  std::int64_t seen = value.load(std::memory_order_relaxed);
  while (seen < floor && !value.compare_exchange_weak(seen, floor, std::memory_order_relaxed)) {
  }
}

}  // namespace

bool Budget::TryTake(std::int64_t bytes) {
  assert(bytes >= 0);
  std::int64_t used = used_bytes_.load(std::memory_order_relaxed);
  do {
    // Compared with what is left, so that no request is large enough to overflow the sum.
    if (bytes > capacity_bytes_ - used) return false;
  } while (!used_bytes_.compare_exchange_weak(used, used + bytes, std::memory_order_relaxed));
  RaiseTo(high_water_bytes_, used + bytes);
  return true;
}

void Budget::Return(std::int64_t bytes) {
  [[maybe_unused]] const std::int64_t before =
      used_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  assert(bytes >= 0 && before >= bytes);
}

PoolUsage Budget::usage() const {
  return {capacity_bytes_, used_bytes_.load(std::memory_order_relaxed),
          high_water_bytes_.load(std::memory_order_relaxed)};
}

}  // namespace attnd
