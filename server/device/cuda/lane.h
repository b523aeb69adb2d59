// The streams and events that one piece of work at a time runs on.
#pragma once

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/kernel_registry.h"
#include "server/device/cuda/event.h"
#include "server/device/cuda/stream.h"
#include "server/device/device.h"

namespace attnd::cuda {

// Three streams, one a stage, ordered by events. The device's copy engines and multiprocessors work
// for as many lanes at once as there are, so that the copies of one piece of work overlap the
// kernels of another. One thread at a time.
class Lane {
 public:
  // On the current device.
  static absl::StatusOr<std::unique_ptr<Lane>> Create();

  // Runs `work` and returns when it has finished. On an error some of it may still be enqueued:
  // call Drain. The lane's device must be current.
  absl::StatusOr<StageSeconds> Run(const DeviceWork& work, const DeviceTraits& device,
                                   absl::FunctionRef<absl::Status()> before_stage);

  // Waits until nothing is enqueued. An error means that the device is lost: whatever an earlier
  // error was, the streams of a device that works run empty.
  absl::Status Drain();

 private:
  struct StageMarks {
    Event begin;
    Event end;
  };

  Lane(Stream copy_in, Stream compute, Stream copy_out, StageMarks in, StageMarks computed,
       StageMarks out);
  static absl::StatusOr<StageMarks> CreateMarks();

  absl::Status CopyIn(const DeviceWork& work);
  absl::Status Compute(const DeviceWork& work, const DeviceTraits& device);
  absl::Status CopyOut(const DeviceWork& work);

  Stream copy_in_stream_;
  Stream compute_stream_;
  Stream copy_out_stream_;
  StageMarks copy_in_;
  StageMarks compute_;
  StageMarks copy_out_;
};

}  // namespace attnd::cuda
