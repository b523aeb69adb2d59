// The device that a program of the engine's suites runs on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/device/device.h"

namespace attnd {

// FailedPrecondition where there is no such device: the tests are skipped.
absl::StatusOr<std::unique_ptr<Device>> MakeDeviceUnderTest(std::int64_t device_memory_bytes,
                                                            std::int64_t staging_memory_bytes);

// The values of DeviceInfo::unified_memory that the suites run with. Host memory can be passed off
// as a device's own.
std::vector<bool> UnifiedMemoryKinds();

}  // namespace attnd
