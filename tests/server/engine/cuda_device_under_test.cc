#include "tests/server/engine/device_under_test.h"

namespace attnd {

absl::StatusOr<std::unique_ptr<Device>> MakeDeviceUnderTest(std::int64_t device_memory_bytes,
                                                            std::int64_t staging_memory_bytes) {
  CudaDeviceOptions options;
  options.device_memory_bytes = device_memory_bytes;
  options.staging_memory_bytes = staging_memory_bytes;
  return CreateCudaDevice(options);
}

std::vector<bool> UnifiedMemoryKinds() { return {false}; }

}  // namespace attnd
