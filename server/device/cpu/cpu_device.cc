#include "server/device/cpu/cpu_device.h"

#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace attnd {
namespace {

// The processor's name in the system's own words; "cpu" where it does not tell.
std::string ProcessorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "cpu";
}

DeviceInfo InfoOfCpu(int num_threads) {
  DeviceInfo info;
  info.traits.backend = Backend::kCpu;
  info.traits.num_multiprocessors = num_threads;
  info.name = ProcessorName();
  info.unified_memory = true;
  return info;
}

void Copy(std::byte* to, const std::byte* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

// Seconds since the last lap.
class Laps {
 public:
  double Next() {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    return seconds;
  }

 private:
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

absl::Status CheckNotNegative(const char* name, std::int64_t value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", value, ", must be at least 0"));
}

absl::StatusOr<HostRegion> MapRegion(const char* setting, std::int64_t size_bytes) {
  absl::StatusOr<HostRegion> region = HostRegion::Create(size_bytes);
  if (region.ok()) return region;
  return absl::InvalidArgumentError(
      absl::StrCat(setting, ": got ", size_bytes, "; accepted here: at most ",
                   HostRegion::LargestPossible(size_bytes), " (", region.status().message(), ")"));
}

// The system has one word for limits of its own and for what others hold just now: EAGAIN.
absl::Status ThreadsRefused(int asked, int num_threads, const std::system_error& error) {
  const std::string got = asked > 0 ? absl::StrCat("got ", asked)
                                    : absl::StrCat("left at 0, which means ", num_threads, " here");
  return absl::ResourceExhaustedError(
      absl::StrCat("threads: ", got, "; accepted now: fewer, the system starts no more (",
                   error.code().message(), ")"));
}

}  // namespace

CpuDevice::CpuDevice(HostRegion device_region, HostRegion staging_region, int num_threads)
    : PooledDevice(InfoOfCpu(num_threads), std::move(device_region), std::move(staging_region)),
      threads_(num_threads) {}

absl::StatusOr<StageSeconds> CpuDevice::Run(const DeviceWork& work,
                                            absl::FunctionRef<absl::Status()> before_stage) {
  const ExecutionContext context{.parallel_for = &threads_,
                                 .workspace = work.workspace,
                                 .workspace_bytes = work.workspace_bytes,
                                 .device = info().traits};
  StageSeconds seconds;
  Laps laps;
  RETURN_IF_ERROR(before_stage());
  Copy(work.device_input, work.staging_input, work.input_bytes);
  seconds.copy_in = laps.Next();
  RETURN_IF_ERROR(before_stage());
  RETURN_IF_ERROR(work.compute(context));
  seconds.compute = laps.Next();
  RETURN_IF_ERROR(before_stage());
  Copy(work.staging_output, work.device_output, work.output_bytes);
  seconds.copy_out = laps.Next();
  return seconds;
}

absl::StatusOr<std::unique_ptr<Device>> CreateCpuDevice(const CpuDeviceOptions& options) {
  RETURN_IF_ERROR(CheckNotNegative("device_memory_bytes", options.device_memory_bytes));
  RETURN_IF_ERROR(CheckNotNegative("staging_memory_bytes", options.staging_memory_bytes));
  RETURN_IF_ERROR(CheckNotNegative("num_threads", options.num_threads));
  ASSIGN_OR_RETURN(HostRegion device_region,
                   MapRegion("device_memory_bytes", options.device_memory_bytes));
  ASSIGN_OR_RETURN(HostRegion staging_region,
                   MapRegion("staging_memory_bytes", options.staging_memory_bytes));
  const int num_threads = options.num_threads > 0 ? options.num_threads : UsableProcessors();
  try {
    return std::make_unique<CpuDevice>(std::move(device_region), std::move(staging_region),
                                       num_threads);
  } catch (const std::system_error& error) {
    return ThreadsRefused(options.num_threads, num_threads, error);
  }
}

}  // namespace attnd
