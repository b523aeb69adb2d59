#include "server/device/cuda/cuda_device.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/status_macros.h"
#include "server/device/cuda/device_guard.h"

namespace attnd::cuda {
namespace {

constexpr int kLeastComputeCapability = 80;  // what the kernels are written for

std::int64_t HostMemoryBytes() {
  return std::int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
}

absl::Status CheckOptions(const CudaDeviceOptions& options) {
  if (options.device_memory_bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device_memory_bytes: ", options.device_memory_bytes, ", must be at least 0"));
  }
  if (options.staging_memory_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "staging_memory_bytes: ", options.staging_memory_bytes, ", must be at least 0"));
  }
  // PinnedRegion tries halves of what cannot be pinned: of this it would begin with most of what
  // the host has.
  if (options.staging_memory_bytes > HostMemoryBytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("staging_memory_bytes: got ", options.staging_memory_bytes,
                     "; accepted here: at most ", HostMemoryBytes(), ", the host's memory"));
  }
  if (options.num_streams < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_streams: ", options.num_streams, ", must be at least 1"));
  }
  return absl::OkStatus();
}

absl::Status CheckThereIsDevice(int ordinal) {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    cudaGetLastError();
    return absl::FailedPreconditionError(absl::StrCat(
        "no usable CUDA device: ", cudaGetErrorString(error), " (", cudaGetErrorName(error), ")"));
  }
  if (ordinal < 0 || ordinal >= count) {
    return absl::InvalidArgumentError(absl::StrCat("device_ordinal: got ", ordinal,
                                                   "; accepted here: 0 to ", count - 1,
                                                   ", the CUDA devices that there are"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Attribute(cudaDeviceAttr attribute, int ordinal) {
  int value = 0;
  RETURN_IF_CUDA_ERROR(cudaDeviceGetAttribute(&value, attribute, ordinal));
  return value;
}

absl::StatusOr<DeviceTraits> ReadTraits(int ordinal) {
  DeviceTraits traits;
  traits.backend = Backend::kCuda;
  ASSIGN_OR_RETURN(const int major, Attribute(cudaDevAttrComputeCapabilityMajor, ordinal));
  ASSIGN_OR_RETURN(const int minor, Attribute(cudaDevAttrComputeCapabilityMinor, ordinal));
  traits.compute_capability = 10 * major + minor;
  ASSIGN_OR_RETURN(traits.num_multiprocessors, Attribute(cudaDevAttrMultiProcessorCount, ordinal));
  ASSIGN_OR_RETURN(traits.shared_memory_per_block_bytes,
                   Attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal));
  return traits;
}

absl::StatusOr<DeviceInfo> ReadInfo(int ordinal) {
  DeviceInfo info;
  ASSIGN_OR_RETURN(info.traits, ReadTraits(ordinal));
  cudaDeviceProp properties{};
  RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&properties, ordinal));
  info.name = properties.name;
  if (info.traits.compute_capability < kLeastComputeCapability) {
    return absl::FailedPreconditionError(absl::StrCat(info.name, " has compute capability ",
                                                      properties.major, ".", properties.minor,
                                                      ", at least 8.0 is needed"));
  }
  return info;
}

// What to take of the current device's memory: what is asked for, or nine tenths of what is free.
absl::StatusOr<std::int64_t> DeviceMemoryBytes(std::int64_t asked_bytes) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  RETURN_IF_CUDA_ERROR(cudaMemGetInfo(&free_bytes, &total_bytes));
  const auto available_bytes = static_cast<std::int64_t>(free_bytes);
  if (asked_bytes > static_cast<std::int64_t>(total_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("device_memory_bytes: got ", asked_bytes, "; accepted here: at most ",
                     total_bytes, ", the device's memory, of which ", free_bytes, " are free"));
  }
  if (asked_bytes > available_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("device_memory_bytes: got ", asked_bytes, "; accepted now: at most ",
                     available_bytes, ", which is free of the device's ", total_bytes));
  }
  return asked_bytes > 0 ? asked_bytes : available_bytes / 10 * 9;
}

absl::StatusOr<DeviceRegion> TakeDeviceRegion(std::int64_t size_bytes) {
  absl::StatusOr<DeviceRegion> region = DeviceRegion::Create(size_bytes);
  if (region.ok()) return region;
  // What is free need not be free in one piece.
  return absl::ResourceExhaustedError(
      absl::StrCat("device_memory_bytes: ", size_bytes,
                   " cannot be taken in one piece: ", region.status().message()));
}

absl::StatusOr<std::vector<std::unique_ptr<Lane>>> CreateLanes(int count) {
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(std::unique_ptr<Lane> lane, Lane::Create());
    lanes.push_back(std::move(lane));
  }
  return lanes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> CudaDevice::Create(const CudaDeviceOptions& options) {
  RETURN_IF_ERROR(CheckThereIsDevice(options.ordinal));
  const DeviceGuard guard(options.ordinal);
  RETURN_IF_ERROR(guard.status());
  ASSIGN_OR_RETURN(DeviceInfo info, ReadInfo(options.ordinal));
  // Not before there is a usable device: where there is none, options that do not suit one may
  // suit the CPU.
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(PinnedRegion staging_region, PinnedRegion::Create(options.staging_memory_bytes));
  ASSIGN_OR_RETURN(std::vector<std::unique_ptr<Lane>> lanes, CreateLanes(options.num_streams));
  // Last, because by default it takes a share of what the rest has left.
  ASSIGN_OR_RETURN(const std::int64_t device_memory_bytes,
                   DeviceMemoryBytes(options.device_memory_bytes));
  ASSIGN_OR_RETURN(DeviceRegion device_region, TakeDeviceRegion(device_memory_bytes));
  return std::unique_ptr<Device>(new CudaDevice(options.ordinal, std::move(info),
                                                std::move(device_region), std::move(staging_region),
                                                std::move(lanes)));
}

CudaDevice::CudaDevice(int ordinal, DeviceInfo info, DeviceRegion device_region,
                       PinnedRegion staging_region, std::vector<std::unique_ptr<Lane>> lanes)
    : PooledDevice(std::move(info), std::move(device_region), std::move(staging_region)),
      ordinal_(ordinal),
      lanes_(std::move(lanes)) {}

absl::StatusOr<StageSeconds> CudaDevice::Run(const DeviceWork& work,
                                             absl::FunctionRef<absl::Status()> before_stage) {
  RETURN_IF_ERROR(health());
  const DeviceGuard guard(ordinal_);
  RETURN_IF_ERROR(guard.status());
  ASSIGN_OR_RETURN(const LeasePool<Lane>::Lease lane, lanes_.Acquire(before_stage));
  absl::StatusOr<StageSeconds> seconds = lane->Run(work, info().traits, before_stage);
  if (!seconds.ok()) {
    if (const absl::Status drained = lane->Drain(); !drained.ok()) Latch(drained);
  }
  return seconds;
}

absl::Status CudaDevice::health() const {
  const std::lock_guard lock(mu_);
  return health_;
}

void CudaDevice::Latch(const absl::Status& error) {
  const std::lock_guard lock(mu_);
  health_.Update(error);
}

}  // namespace attnd::cuda

namespace attnd {

absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const CudaDeviceOptions& options) {
  return cuda::CudaDevice::Create(options);
}

}  // namespace attnd
