#include "tests/server/device/device_under_test.h"

namespace attnd {

absl::StatusOr<std::unique_ptr<Device>> MakeDeviceUnderTest() {
  return CreateCudaDevice({.ordinal = 0,
                           .device_memory_bytes = kDeviceMemoryBytes,
                           .staging_memory_bytes = kStagingMemoryBytes,
                           .num_streams = 4});
}

}  // namespace attnd
