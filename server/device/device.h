// What the engine needs of a device: memory within a budget, ordered queues of work, copies, and
// kernels. One interface for the CPU and for CUDA, so that the engine is written, and tested, once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/kernel_registry.h"

namespace attnd {

struct DeviceInfo {
  DeviceTraits traits;
  std::string name;
  std::int64_t device_memory_bytes = 0;   // budget for buffers, fixed at start
  std::int64_t staging_memory_bytes = 0;  // budget for staging, fixed at start
  // The device computes on staging memory itself: a staging buffer can be handed to kernels and
  // copies are not needed.
  bool unified_memory = false;
};

// Buffers begin at multiples of this many bytes, and count in their pool rounded up to it.
inline constexpr std::int64_t kBufferAlignment = 256;
constexpr std::int64_t RoundUpToBuffer(std::int64_t bytes) {
  return (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
}

struct PoolUsage {
  std::int64_t capacity_bytes = 0;
  std::int64_t used_bytes = 0;
  std::int64_t high_water_bytes = 0;
};

// Owns a block of memory of a device or of its staging pool; gives it back when destroyed.
// Move-only, empty after a move. Must be destroyed after the work that uses it has finished, and
// before its device.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::byte* data, std::int64_t size_bytes, std::function<void()> release)
      : data_(data), size_bytes_(size_bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      Reset();
      data_ = std::exchange(other.data_, nullptr);
      size_bytes_ = std::exchange(other.size_bytes_, 0);
      release_ = std::exchange(other.release_, nullptr);
    }
    return *this;
  }
  ~Buffer() { Reset(); }

  std::byte* data() const { return data_; }
  std::int64_t size_bytes() const { return size_bytes_; }
  void Reset() {
    if (release_) std::exchange(release_, nullptr)();
    data_ = nullptr;
    size_bytes_ = 0;
  }

 private:
  std::byte* data_ = nullptr;
  std::int64_t size_bytes_ = 0;
  std::function<void()> release_;
};

// Seconds that the stages of one piece of work took on the device.
struct StageSeconds {
  double copy_in = 0;
  double compute = 0;
  double copy_out = 0;
};

// One piece of work: copy in, compute, copy out, in that order. Everything it points to outlives
// it.
struct DeviceWork {
  std::byte* device_input = nullptr;  // destination of the input copy
  const std::byte* staging_input = nullptr;
  std::int64_t input_bytes = 0;

  // Enqueues the computation; called once, with the context to hand to kernels. Must not throw:
  // what was enqueued before would go on while its memory is given back.
  std::function<absl::Status(const ExecutionContext&)> compute;
  std::byte* workspace = nullptr;
  std::int64_t workspace_bytes = 0;

  std::byte* staging_output = nullptr;
  const std::byte* device_output = nullptr;
  std::int64_t output_bytes = 0;
};

// Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;

  // A buffer of at least 1 byte, aligned to 256 bytes, contents undefined. ResourceExhausted when
  // the pool has no room now.
  virtual absl::StatusOr<Buffer> AllocateDevice(std::int64_t size_bytes) = 0;
  virtual absl::StatusOr<Buffer> AllocateStaging(std::int64_t size_bytes) = 0;
  virtual PoolUsage device_usage() const = 0;
  virtual PoolUsage staging_usage() const = 0;

  // Runs `work` and returns when it has finished. Several threads may call at once: the copies and
  // kernels of different calls overlap where the device can. `before_stage` is called before each
  // stage, and every few milliseconds while the work waits for others to leave the device; its
  // error ends the work (deadline, cancellation). Whatever was enqueued by then has finished when
  // Run returns.
  virtual absl::StatusOr<StageSeconds> Run(const DeviceWork& work,
                                           absl::FunctionRef<absl::Status()> before_stage) = 0;

  // OK, or the error that makes the device unusable until the process is restarted.
  virtual absl::Status health() const = 0;
};

struct CpuDeviceOptions {
  std::int64_t device_memory_bytes = std::int64_t{1} << 30;
  std::int64_t staging_memory_bytes = std::int64_t{1} << 30;
  int num_threads = 0;  // 0: as many as the process may use
};

struct CudaDeviceOptions {
  int ordinal = 0;
  std::int64_t device_memory_bytes = 0;  // 0: nine tenths of what is free at start
  std::int64_t staging_memory_bytes = std::int64_t{1} << 30;
  int num_streams = 4;  // pieces of work in flight
};

// InvalidArgument, naming the option, its value and what is accepted, for sizes that cannot be
// mapped; ResourceExhausted, naming `threads`, where the system refuses one of them.
absl::StatusOr<std::unique_ptr<Device>> CreateCpuDevice(const CpuDeviceOptions& options);

// Unimplemented in a build without CUDA; FailedPrecondition, with the driver's own words, where
// there is no usable device, whatever the options say. InvalidArgument as above for a device that
// is not among those that there are, and for more memory than the device or the host has;
// ResourceExhausted for more than others have left of it.
absl::StatusOr<std::unique_ptr<Device>> CreateCudaDevice(const CudaDeviceOptions& options);

}  // namespace attnd
