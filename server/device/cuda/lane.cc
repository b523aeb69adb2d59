#include "server/device/cuda/lane.h"

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "kernels/cuda/cuda_status.h"
#include "kernels/status_macros.h"

namespace attnd::cuda {
namespace {

// Up to this size (some 150 us over PCIe) a copy is enqueued together with its neighbours, which
// spares their launch latency. Behind or before a larger one the host waits, so that the check
// between two stages sees what happened meanwhile.
constexpr std::int64_t kLargeCopyBytes = std::int64_t{8} << 20;

}  // namespace

Lane::Lane(Stream copy_in, Stream compute, Stream copy_out, StageMarks in, StageMarks computed,
           StageMarks out)
    : copy_in_stream_(std::move(copy_in)),
      compute_stream_(std::move(compute)),
      copy_out_stream_(std::move(copy_out)),
      copy_in_(std::move(in)),
      compute_(std::move(computed)),
      copy_out_(std::move(out)) {}

absl::StatusOr<Lane::StageMarks> Lane::CreateMarks() {
  ASSIGN_OR_RETURN(Event begin, Event::Create());
  ASSIGN_OR_RETURN(Event end, Event::Create());
  return StageMarks{std::move(begin), std::move(end)};
}

absl::StatusOr<std::unique_ptr<Lane>> Lane::Create() {
  ASSIGN_OR_RETURN(Stream copy_in_stream, Stream::Create());
  ASSIGN_OR_RETURN(Stream compute_stream, Stream::Create());
  ASSIGN_OR_RETURN(Stream copy_out_stream, Stream::Create());
  ASSIGN_OR_RETURN(StageMarks copy_in, CreateMarks());
  ASSIGN_OR_RETURN(StageMarks compute, CreateMarks());
  ASSIGN_OR_RETURN(StageMarks copy_out, CreateMarks());
  return std::unique_ptr<Lane>(new Lane(std::move(copy_in_stream), std::move(compute_stream),
                                        std::move(copy_out_stream), std::move(copy_in),
                                        std::move(compute), std::move(copy_out)));
}

absl::StatusOr<StageSeconds> Lane::Run(const DeviceWork& work, const DeviceTraits& device,
                                       absl::FunctionRef<absl::Status()> before_stage) {
  RETURN_IF_ERROR(before_stage());
  RETURN_IF_ERROR(CopyIn(work));
  if (work.input_bytes > kLargeCopyBytes) RETURN_IF_ERROR(copy_in_.end.Wait());
  RETURN_IF_ERROR(before_stage());
  RETURN_IF_ERROR(Compute(work, device));
  if (work.output_bytes > kLargeCopyBytes) RETURN_IF_ERROR(compute_.end.Wait());
  RETURN_IF_ERROR(before_stage());
  RETURN_IF_ERROR(CopyOut(work));
  // The last stage ends after the others.
  RETURN_IF_ERROR(copy_out_.end.Wait());

  StageSeconds seconds;
  ASSIGN_OR_RETURN(seconds.copy_in, SecondsBetween(copy_in_.begin, copy_in_.end));
  ASSIGN_OR_RETURN(seconds.compute, SecondsBetween(compute_.begin, compute_.end));
  ASSIGN_OR_RETURN(seconds.copy_out, SecondsBetween(copy_out_.begin, copy_out_.end));
  return seconds;
}

absl::Status Lane::CopyIn(const DeviceWork& work) {
  RETURN_IF_ERROR(copy_in_.begin.Record(copy_in_stream_));
  if (work.input_bytes > 0) {
    RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(work.device_input, work.staging_input,
                                         static_cast<std::size_t>(work.input_bytes),
                                         cudaMemcpyHostToDevice, copy_in_stream_.get()));
  }
  return copy_in_.end.Record(copy_in_stream_);
}

absl::Status Lane::Compute(const DeviceWork& work, const DeviceTraits& device) {
  RETURN_IF_ERROR(copy_in_.end.HoldBack(compute_stream_));
  RETURN_IF_ERROR(compute_.begin.Record(compute_stream_));
  const ExecutionContext context{.stream = compute_stream_.get(),
                                 .workspace = work.workspace,
                                 .workspace_bytes = work.workspace_bytes,
                                 .device = device};
  RETURN_IF_ERROR(work.compute(context));
  return compute_.end.Record(compute_stream_);
}

absl::Status Lane::CopyOut(const DeviceWork& work) {
  RETURN_IF_ERROR(compute_.end.HoldBack(copy_out_stream_));
  RETURN_IF_ERROR(copy_out_.begin.Record(copy_out_stream_));
  if (work.output_bytes > 0) {
    RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(work.staging_output, work.device_output,
                                         static_cast<std::size_t>(work.output_bytes),
                                         cudaMemcpyDeviceToHost, copy_out_stream_.get()));
  }
  return copy_out_.end.Record(copy_out_stream_);
}

absl::Status Lane::Drain() {
  absl::Status status;
  for (const Stream* stream : {&copy_in_stream_, &compute_stream_, &copy_out_stream_}) {
    status.Update(StatusFromCuda(cudaStreamSynchronize(stream->get()), "cudaStreamSynchronize",
                                 __FILE__, __LINE__));
  }
  return status;
}

}  // namespace attnd::cuda
