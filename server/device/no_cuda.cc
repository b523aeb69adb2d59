// Stands for the CUDA device in a build without CUDA.
#include "absl/status/status.h"
#include "server/device/device.h"

namespace attnd {

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const CudaDeviceOptions&) {
  return absl::UnimplementedError("this build has no CUDA backend");
}

}  // namespace attnd
