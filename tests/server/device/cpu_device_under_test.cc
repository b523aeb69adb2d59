#include "tests/server/device/device_under_test.h"

namespace attnd {

absl::StatusOr<std::unique_ptr<Device>> MakeDeviceUnderTest() {
  return CreateCpuDevice({.device_memory_bytes = kDeviceMemoryBytes,
                          .staging_memory_bytes = kStagingMemoryBytes,
                          .num_threads = 3});
}

}  // namespace attnd
