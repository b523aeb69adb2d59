#include "server/engine/engine.h"

#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"
#include "server/engine/admission.h"
#include "server/engine/clock.h"
#include "server/engine/device_usable.h"
#include "server/engine/exceptions.h"
#include "server/engine/job.h"
#include "server/engine/pipeline.h"
#include "server/engine/stoppable_compute.h"
#include "server/telemetry/metrics.h"

namespace attnd {
namespace {

using MergeCallback = std::function<void(absl::StatusOr<std::unique_ptr<MergeJob>>)>;
using JobCallback = std::function<void(absl::StatusOr<std::unique_ptr<AttentionJob>>)>;

// Host code on a device that has no threads to offer runs on a CPU device without memory of its
// own. nullptr: the device runs host code itself.
absl::StatusOr<std::unique_ptr<Device>> MakeHostDevice(const Device& device) {
  if (device.info().unified_memory) return nullptr;
  return CreateCpuDevice({.device_memory_bytes = 0, .staging_memory_bytes = 0});
}

// Bytes of the memory that a merge reads and writes, which its caller holds. `p` has been
// validated.
std::int64_t MergeBytes(const MergeParams& p) {
  const std::int64_t parts_bytes = p.num_parts * p.rows * (p.dim + 1) * std::int64_t{sizeof(float)};
  const std::int64_t lse_bytes = p.lse != nullptr ? p.rows * std::int64_t{sizeof(float)} : 0;
  return RoundUpToBuffer(parts_bytes + p.rows * p.dim * SizeOf(p.out_dtype) + lse_bytes);
}

// Of each element of each part, a product and a sum.
double MergeFlops(const MergeParams& p) {
  return 2.0 * static_cast<double>(p.num_parts) * static_cast<double>(p.rows) *
         static_cast<double>(p.dim);
}

// Bytes of the problem's inputs and results, without what lies between them in their blocks.
std::int64_t TensorBytes(const AttentionPlan& plan) {
  std::int64_t bytes = 0;
  for (const Extent& input : plan.inputs) bytes += input.size_bytes;
  for (const Extent& output : plan.outputs) bytes += output.size_bytes;
  return bytes;
}

// Adds to why a request can never be served what its need is made of.
absl::Status Explained(const absl::Status& refusal, const AttentionPlan& plan) {
  if (!absl::IsInvalidArgument(refusal)) return refusal;
  return absl::InvalidArgumentError(absl::StrCat(refusal.message(), ": ", DescribeNeed(plan)));
}

class HostMerge : public MergeJob {
 public:
  HostMerge(const MergeParams& params, Device* host, const Clock* clock, Admitted admitted)
      : params_(params),
        host_(host),
        clock_(clock),
        reservation_(std::move(admitted.reservation)),
        seconds_{.queue = absl::ToDoubleSeconds(admitted.waited), .stages = {}} {}

  absl::Status Run(const CallControl& control) override {
    const auto check = [&] { return control.Check(clock_->Now()); };
    const auto merge = [this](const ExecutionContext& context) {
      return RunMerge(params_, context);
    };
    DeviceWork work;
    work.compute = [&](const ExecutionContext& context) {
      return WithoutExceptions(
          [&] { return ComputeUnlessStopped(context, MergeFlops(params_), check, merge); });
    };
    ASSIGN_OR_RETURN(seconds_.stages, host_->Run(work, check));
    return absl::OkStatus();
  }
  const JobSeconds& seconds() const override { return seconds_; }

 private:
  const MergeParams params_;
  Device* const host_;
  const Clock* const clock_;
  const Reservation reservation_;
  JobSeconds seconds_;
};

class EngineImpl : public Engine {
 public:
  // Throws std::system_error where the system refuses a thread.
  EngineImpl(const EngineOptions& options, Device& device, std::unique_ptr<Device> host_device,
             Metrics* metrics)
      : device_(device),
        metrics_(metrics),
        host_device_(std::move(host_device)),
        admission_(
            {.capacity = {device.info().staging_memory_bytes, device.info().device_memory_bytes},
             .max_queued_requests = options.max_queued_requests,
             .max_queue_wait = options.max_queue_wait},
            &clock_, metrics),
        pipeline_(std::in_place, &device, &host(), &clock_, options.num_workers),
        waiters_server_([this] { ServeWaiters(); }) {
    if (metrics_ != nullptr) metrics_->SetLiveSource([this] { return Read(); });
  }

  ~EngineImpl() override {
    if (metrics_ != nullptr) metrics_->SetLiveSource(nullptr);
    StartDraining();
    admission_.FailWaiters(RejectReason::kDraining,
                           absl::UnavailableError("the server is shutting down"));
    admission_.Stop();
    waiters_server_.join();
    pipeline_.reset();
  }

  void Admit(AttentionPlan plan, CallControl control, JobCallback admitted) override {
    if (absl::Status status = CheckHealth(); !status.ok()) return admitted(std::move(status));
    const MemoryNeed need = NeedOf(plan, device_.info());
    auto job = std::make_unique<Job>(std::move(plan));
    Job* const allocating =
        job.get();  // held by the answer, which outlives the attempts to allocate
    admission_.Request(
        need, std::move(control),
        [this, allocating] {
          // Memory that a job gives back because the device failed under it must not go to the
          // next.
          RETURN_IF_ERROR(CheckHealth());
          return allocating->Allocate(device_);
        },
        [job = std::move(job),
         admitted = std::move(admitted)](absl::StatusOr<Admitted> result) mutable {
          if (!result.ok()) return admitted(Explained(result.status(), job->plan()));
          job->Start(std::move(result->reservation));
          job->AddQueueTime(result->waited);
          admitted(std::move(job));
        });
  }

  void Submit(std::unique_ptr<AttentionJob> job, CallControl control, JobCallback done) override {
    std::unique_ptr<Job> own(static_cast<Job*>(job.release()));
    pipeline_->Submit(std::move(own), std::move(control),
                      [this, done = std::move(done)](absl::StatusOr<std::unique_ptr<Job>> result) {
                        if (!result.ok()) return done(Failed(result.status()));
                        Count(**result);
                        done(*std::move(result));
                      });
  }

  void AdmitMerge(const MergeParams& params, CallControl control, MergeCallback admitted) override {
    if (absl::Status status = ValidateMerge(params); !status.ok())
      return admitted(std::move(status));
    if (absl::Status status = CheckHealth(); !status.ok()) return admitted(std::move(status));
    // Counted, not allocated: the caller holds the memory.
    admission_.Request(
        {.staging_bytes = MergeBytes(params), .device_bytes = 0}, std::move(control),
        [] { return absl::OkStatus(); },
        [this, params, admitted = std::move(admitted)](absl::StatusOr<Admitted> result) {
          if (!result.ok()) return admitted(result.status());
          admitted(std::make_unique<HostMerge>(params, &host(), &clock_, *std::move(result)));
        });
  }

  const Device& device() const override { return device_; }
  int requests_in_flight() const override { return admission_.in_flight(); }
  void StartDraining() override { admission_.StartDraining(); }
  bool WaitUntilIdle(absl::Time deadline) override { return admission_.WaitUntilIdle(deadline); }

 private:
  Device& host() { return host_device_ != nullptr ? *host_device_ : device_; }

  void ServeWaiters() {
    absl::Time next = absl::InfiniteFuture();
    while (admission_.AwaitWork(next)) next = admission_.ServeWaiters();
  }

  absl::Status CheckHealth() {
    absl::Status usable = CheckDeviceUsable(device_);
    if (!usable.ok() && metrics_ != nullptr) metrics_->RequestRejected(RejectReason::kUnhealthy);
    return usable;
  }

  // Passes on why a job failed. If that was the end of the device, those who wait for it need not
  // wait on.
  absl::Status Failed(absl::Status status) {
    if (const absl::Status usable = CheckDeviceUsable(device_); !usable.ok())
      admission_.FailWaiters(RejectReason::kUnhealthy, usable);
    return status;
  }

  void Count(const Job& job) {
    if (metrics_ == nullptr) return;
    const AttentionPlan& plan = job.plan();
    const JobSeconds& s = job.seconds();
    const bool copied = !device_.info().unified_memory && !plan.runs_on_host;
    metrics_->ProblemComputed(
        {.kernel = plan.kernel->name,
         .seconds = {s.queue, s.stages.copy_in, s.stages.compute, s.stages.copy_out},
         .flops = plan.flops,
         .tensor_bytes = TensorBytes(plan),
         .copied_in_bytes = copied ? plan.input_bytes : 0,
         .copied_out_bytes = copied ? plan.output_bytes : 0});
  }

  LiveReadings Read() const {
    const MemoryNeed reserved = admission_.reserved();
    const PoolUsage device = device_.device_usage();
    const PoolUsage staging = device_.staging_usage();
    return {.pools = {{"device", device.capacity_bytes, reserved.device_bytes, device.used_bytes,
                       device.high_water_bytes},
                      {"staging", staging.capacity_bytes, reserved.staging_bytes,
                       staging.used_bytes, staging.high_water_bytes}},
            .requests_in_flight = admission_.in_flight(),
            .queue_length = admission_.queue_length(),
            .device_healthy = device_.health().ok()};
  }

  Device& device_;
  Metrics* const metrics_;
  const SystemClock clock_;
  const std::unique_ptr<Device> host_device_;  // nullptr: the device runs host code itself
  Admission admission_;
  std::optional<Pipeline> pipeline_;  // optional, so that the destructor can end it before the rest
  std::thread waiters_server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> CreateEngine(const EngineOptions& options, Device& device,
                                                     Metrics* metrics) {
  ASSIGN_OR_RETURN(std::unique_ptr<Device> host_device, MakeHostDevice(device));
  try {
    return std::make_unique<EngineImpl>(options, device, std::move(host_device), metrics);
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("streams: got ", options.num_workers,
                     "; accepted now: fewer, or fewer threads, the system starts no more (",
                     error.code().message(), ")"));
  }
}

}  // namespace attnd
