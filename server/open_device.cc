#include "server/open_device.h"

#include <string>

#include "server/telemetry/log.h"

namespace attnd {
namespace {

bool MeansNoDevice(const absl::Status& status) {
  return absl::IsUnimplemented(status) || absl::IsFailedPrecondition(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const ServerOptions& options) {
  if (options.backend == BackendChoice::kCpu) return CreateCpuDevice(options.cpu);
  absl::StatusOr<std::unique_ptr<Device>> device = CreateCudaDevice(options.cuda);
  if (options.backend == BackendChoice::kCuda || !MeansNoDevice(device.status())) return device;
  Log(spdlog::level::info, "no CUDA device, computing on the CPU",
      {{"reason", std::string(device.status().message())}});
  return CreateCpuDevice(options.cpu);
}

}  // namespace attnd
