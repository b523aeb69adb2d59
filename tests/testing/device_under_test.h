// The device that the suites of a program run on. Suites over any device are compiled once, and
// linked with one definition of these functions or the other.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/device/device.h"

namespace attnd {

// Pieces of work that the device takes at once, where it has a limit.
inline constexpr int kNumStreams = 4;

// FailedPrecondition where there is no such device: the tests are skipped.
absl::StatusOr<std::unique_ptr<Device>> MakeDeviceUnderTest(std::int64_t device_memory_bytes,
                                                            std::int64_t staging_memory_bytes);

// The values of DeviceInfo::unified_memory that the suites run with. Host memory can be passed off
// as a device's own.
std::vector<bool> UnifiedMemoryKinds();

}  // namespace attnd
