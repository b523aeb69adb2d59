// The device that a program of the device contract suite tests.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "server/device/device.h"

namespace attnd {

inline constexpr std::int64_t kDeviceMemoryBytes = std::int64_t{64} << 20;
inline constexpr std::int64_t kStagingMemoryBytes = std::int64_t{64} << 20;

// FailedPrecondition where there is no such device: the tests are skipped.
absl::StatusOr<std::unique_ptr<Device>> MakeDeviceUnderTest();

}  // namespace attnd
