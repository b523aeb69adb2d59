#include "server/engine/job.h"

#include <cstring>
#include <utility>

#include "kernels/status_macros.h"
#include "server/engine/compute_cost.h"
#include "server/engine/exceptions.h"
#include "server/engine/stoppable_compute.h"

namespace attnd {
namespace {

// Below this cost (some 20 us of one core) waking other threads takes longer than they save.
constexpr double kSerialCost = 5e5;

using AllocateMethod = absl::StatusOr<Buffer> (Device::*)(std::int64_t);

absl::Status TakeIfAny(Device& device, AllocateMethod allocate, std::int64_t size_bytes,
                       Buffer& buffer) {
  if (size_bytes == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(buffer, (device.*allocate)(size_bytes));
  return absl::OkStatus();
}

template <typename T>
void WriteArray(const std::vector<T>& array, const Extent& extent, std::byte* block) {
  if (!array.empty()) std::memcpy(block + extent.offset_bytes, array.data(), extent.size_bytes);
}

}  // namespace

absl::Status Job::Allocate(Device& device) {
  absl::Status status = TakeBuffers(device);
  if (!status.ok()) ReleaseBuffers();
  return status;
}

absl::Status Job::TakeBuffers(Device& device) {
  computes_in_staging_ = device.info().unified_memory || plan_.runs_on_host;
  RETURN_IF_ERROR(TakeIfAny(device, &Device::AllocateStaging, plan_.input_bytes, staging_input_));
  RETURN_IF_ERROR(TakeIfAny(device, &Device::AllocateStaging, plan_.output_bytes, staging_output_));
  if (!computes_in_staging_) {
    RETURN_IF_ERROR(TakeIfAny(device, &Device::AllocateDevice, plan_.input_bytes, device_input_));
    RETURN_IF_ERROR(TakeIfAny(device, &Device::AllocateDevice, plan_.output_bytes, device_output_));
  }
  const bool host_workspace = plan_.runs_on_host && !device.info().unified_memory;
  return TakeIfAny(device, host_workspace ? &Device::AllocateStaging : &Device::AllocateDevice,
                   plan_.workspace_bytes, workspace_);
}

void Job::Start(Reservation reservation) {
  reservation_ = std::move(reservation);
  const AttentionProblem& problem = plan_.problem;
  std::byte* block = staging_input_.data();
  WriteArray(problem.cu_seqlens_q, plan_.small_input(SmallInput::kCuSeqlensQ), block);
  WriteArray(problem.cu_seqlens_k, plan_.small_input(SmallInput::kCuSeqlensK), block);
  WriteArray(problem.lengths_q, plan_.small_input(SmallInput::kLengthsQ), block);
  WriteArray(problem.lengths_k, plan_.small_input(SmallInput::kLengthsK), block);
  WriteArray(problem.alibi_slopes, plan_.small_input(SmallInput::kAlibiSlopes), block);
  WriteArray(problem.sinks, plan_.small_input(SmallInput::kSinks), block);
}

absl::Status Job::Run(Device& device, Device& host, absl::FunctionRef<absl::Status()> check) {
  DeviceWork work;
  work.workspace = workspace_.data();
  work.workspace_bytes = plan_.workspace_bytes;
  std::byte* input = staging_input_.data();
  std::byte* output = staging_output_.data();
  if (!computes_in_staging_) {
    work.staging_input = std::exchange(input, device_input_.data());
    work.device_input = input;
    work.input_bytes = plan_.input_bytes;
    work.staging_output = std::exchange(output, device_output_.data());
    work.device_output = output;
    work.output_bytes = plan_.output_bytes;
  }
  work.compute = [&](const ExecutionContext& context) {
    return WithoutExceptions([&] { return Compute(context, input, output, check); });
  };
  ASSIGN_OR_RETURN(seconds_.stages, (plan_.runs_on_host ? host : device).Run(work, check));
  KeepOnlyOutputs();
  return absl::OkStatus();
}

absl::Status Job::Compute(const ExecutionContext& device_context, std::byte* input,
                          std::byte* output, absl::FunctionRef<absl::Status()> check) const {
  // Nothing to write: a launch without blocks would be an error.
  if (plan_.output_bytes == 0) return absl::OkStatus();
  const AttentionParams params =
      BindParams(plan_, input, output, static_cast<std::byte*>(device_context.workspace));
  const double cost = ComputeCost(plan_);
  ExecutionContext job_context = device_context;
  if (cost < kSerialCost) job_context.parallel_for = nullptr;
  return ComputeUnlessStopped(job_context, cost, check, [&](const ExecutionContext& context) {
    RETURN_IF_ERROR(plan_.kernel->run(params, context));
    if (!plan_.problem.want_diagnostics) return absl::OkStatus();
    return RunDiagnostics(
        params, context,
        reinterpret_cast<AttentionDiagnostics*>(output + plan_.diagnostics.offset_bytes));
  });
}

void Job::KeepOnlyOutputs() {
  staging_input_.Reset();
  device_input_.Reset();
  device_output_.Reset();
  workspace_.Reset();
  reservation_.ShrinkTo({.staging_bytes = RoundUpToBuffer(plan_.output_bytes), .device_bytes = 0});
}

void Job::ReleaseBuffers() {
  for (Buffer* buffer :
       {&staging_input_, &staging_output_, &device_input_, &device_output_, &workspace_}) {
    buffer->Reset();
  }
}

absl::Span<std::byte> Job::input(InputTensor tensor) {
  if (staging_input_.data() == nullptr) return {};
  const Extent& extent = plan_.input(tensor);
  return {staging_input_.data() + extent.offset_bytes, static_cast<std::size_t>(extent.size_bytes)};
}

absl::Span<const std::byte> Job::output(OutputTensor tensor) const {
  if (staging_output_.data() == nullptr) return {};
  const Extent& extent = plan_.output(tensor);
  return {staging_output_.data() + extent.offset_bytes,
          static_cast<std::size_t>(extent.size_bytes)};
}

const AttentionDiagnostics* Job::diagnostics() const {
  if (!plan_.problem.want_diagnostics) return nullptr;
  return reinterpret_cast<const AttentionDiagnostics*>(staging_output_.data() +
                                                       plan_.diagnostics.offset_bytes);
}

}  // namespace attnd
