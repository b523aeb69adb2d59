#include "tests/testing/device_under_test.h"

namespace attnd {

absl::StatusOr<std::unique_ptr<Device>> MakeDeviceUnderTest(std::int64_t device_memory_bytes,
                                                            std::int64_t staging_memory_bytes) {
  return CreateCudaDevice({.device_memory_bytes = device_memory_bytes,
                           .staging_memory_bytes = staging_memory_bytes,
                           .num_streams = kNumStreams});
}

std::vector<bool> UnifiedMemoryKinds() { return {false}; }

}  // namespace attnd
