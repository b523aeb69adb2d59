// The engine's AttentionJob: a plan, the memory reserved for it, and its way over the device.
#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/device/device.h"
#include "server/engine/admission.h"
#include "server/engine/engine.h"

namespace attnd {

// Not thread-safe.
class Job : public AttentionJob {
 public:
  explicit Job(AttentionPlan plan) : plan_(std::move(plan)) {}

  // Takes all buffers from the pools of `device`, or none.
  absl::Status Allocate(Device& device);
  // Hands over the bytes that the buffers are counted under. Writes the plan's small arrays into
  // the input block.
  void Start(Reservation reservation);
  // Runs on `device`, which is the one that the buffers come from, or, for a plan that runs on the
  // host, `host`. Then gives back all memory but that of the outputs. An error of `check` ends the
  // work: it is asked before each stage and, from several threads at once, while the CPU computes.
  absl::Status Run(Device& device, Device& host, absl::FunctionRef<absl::Status()> check);
  void AddQueueTime(absl::Duration waited) { seconds_.queue += absl::ToDoubleSeconds(waited); }

  const AttentionPlan& plan() const override { return plan_; }
  absl::Span<std::byte> input(InputTensor tensor) override;
  absl::Span<const std::byte> output(OutputTensor tensor) const override;
  const AttentionDiagnostics* diagnostics() const override;
  const JobSeconds& seconds() const override { return seconds_; }

 private:
  absl::Status TakeBuffers(Device& device);
  // Computes where the inputs lie, and writes the outputs there.
  absl::Status Compute(const ExecutionContext& device_context, std::byte* input, std::byte* output,
                       absl::FunctionRef<absl::Status()> check) const;
  void ReleaseBuffers();
  void KeepOnlyOutputs();

  const AttentionPlan plan_;
  JobSeconds seconds_;
  // Before the buffers, so that the bytes are free in the pools before they are promised to
  // somebody else.
  Reservation reservation_;
  Buffer staging_input_;
  Buffer staging_output_;
  Buffer device_input_;  // the device's blocks are empty where it computes in staging memory
  Buffer device_output_;
  Buffer workspace_;
  bool computes_in_staging_ = false;
};

}  // namespace attnd
