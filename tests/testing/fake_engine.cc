#include "tests/testing/fake_engine.h"

#include <algorithm>
#include <utility>

namespace attnd::testing {
namespace {

class FakeJob final : public AttentionJob {
 public:
  FakeJob(AttentionPlan plan, std::atomic<int>* num_jobs)
      : plan_(std::move(plan)), num_jobs_(num_jobs) {
    ++*num_jobs_;
    for (int i = 0; i < kNumInputTensors; ++i) inputs_[i].resize(plan_.inputs[i].size_bytes);
    for (int i = 0; i < kNumOutputTensors; ++i) outputs_[i].resize(plan_.outputs[i].size_bytes);
  }
  ~FakeJob() override { --*num_jobs_; }

  const AttentionPlan& plan() const override { return plan_; }
  absl::Span<std::byte> input(InputTensor tensor) override {
    return absl::MakeSpan(inputs_[static_cast<int>(tensor)]);
  }
  absl::Span<const std::byte> output(OutputTensor tensor) const override {
    return outputs_[static_cast<int>(tensor)];
  }
  const AttentionDiagnostics* diagnostics() const override {
    return plan_.problem.want_diagnostics ? &diagnostics_ : nullptr;
  }
  const JobSeconds& seconds() const override { return seconds_; }

  void Compute() {
    for (int t = 0; t < kNumOutputTensors; ++t) {
      for (std::size_t i = 0; i < outputs_[t].size(); ++i) {
        outputs_[t][i] =
            FakeEngine::ResultByte(static_cast<OutputTensor>(t), static_cast<std::int64_t>(i));
      }
    }
    diagnostics_.score_min = -1.0f;
    diagnostics_.score_max = 2.0f;
    diagnostics_.lse_min = -3.0f;
    diagnostics_.lse_max = 4.0f;
    diagnostics_.largest_weight = 0.5f;
    diagnostics_.rows_fully_masked = 6;
    diagnostics_.nonfinite_q = 7;
    diagnostics_.nonfinite_k = 8;
    diagnostics_.nonfinite_v = 9;
    seconds_ = {0.001, {0.002, 0.003, 0.004}};
  }

 private:
  const AttentionPlan plan_;
  std::atomic<int>* const num_jobs_;
  std::array<std::vector<std::byte>, kNumInputTensors> inputs_;
  std::array<std::vector<std::byte>, kNumOutputTensors> outputs_;
  AttentionDiagnostics diagnostics_;
  JobSeconds seconds_;
};

class FakeMerge final : public MergeJob {
 public:
  explicit FakeMerge(const MergeParams& params) : params_(params) {}
  absl::Status Run(const CallControl& /*control*/) override { return RunMerge(params_, {}); }
  const JobSeconds& seconds() const override { return seconds_; }

 private:
  const MergeParams params_;
  const JobSeconds seconds_{0.001, {0, 0.003, 0}};
};

std::string Text(absl::Span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

FakeEngine::FakeEngine()
    : device_(*CreateCpuDevice({.device_memory_bytes = 1 << 20, .staging_memory_bytes = 1 << 20})) {
}

std::byte FakeEngine::ResultByte(OutputTensor tensor, std::int64_t index) {
  return static_cast<std::byte>(index * 7 + index / 251 + 50 * static_cast<int>(tensor));
}

void FakeEngine::FailAdmissions(absl::Status status) {
  const std::lock_guard lock(mu_);
  admission_error_ = std::move(status);
}

void FakeEngine::FailSubmissions(absl::Status status) {
  const std::lock_guard lock(mu_);
  submission_error_ = std::move(status);
}

void FakeEngine::Hold() {
  const std::lock_guard lock(mu_);
  holding_ = true;
}

void FakeEngine::Release() {
  std::vector<Held> held;
  {
    const std::lock_guard lock(mu_);
    holding_ = false;
    held.swap(held_);
  }
  for (const Held& call : held) call.go_on(call.control.Check());
}

void FakeEngine::WaitUntilHeld(int count) {
  std::unique_lock lock(mu_);
  changed_.wait(lock, [&] { return static_cast<int>(held_.size()) >= count; });
}

void FakeEngine::WaitUntilHeldAreStopped() {
  const auto all_stopped = [this] {
    const std::lock_guard lock(mu_);
    return std::all_of(held_.begin(), held_.end(),
                       [](const Held& call) { return !call.control.Check().ok(); });
  };
  while (!all_stopped()) absl::SleepFor(absl::Milliseconds(1));
}

std::string FakeEngine::last_input(InputTensor tensor) const {
  const std::lock_guard lock(mu_);
  return last_inputs_[static_cast<int>(tensor)];
}

absl::Status FakeEngine::AdmissionError() const {
  const std::lock_guard lock(mu_);
  return admission_error_;
}

void FakeEngine::GoOn(CallControl control, std::function<void(absl::Status)> go_on) {
  {
    const std::lock_guard lock(mu_);
    if (holding_) {
      held_.push_back({std::move(control), std::move(go_on)});
      changed_.notify_all();
      return;
    }
  }
  go_on(control.Check());
}

void FakeEngine::Admit(AttentionPlan plan, CallControl control, Callback admitted) {
  if (absl::Status error = AdmissionError(); !error.ok()) return admitted(error);
  // std::function copies what it holds.
  const auto shared_plan = std::make_shared<AttentionPlan>(std::move(plan));
  GoOn(std::move(control),
       [this, shared_plan, admitted = std::move(admitted)](absl::Status status) {
         if (!status.ok()) return admitted(status);
         ++num_admitted_;
         admitted(std::make_unique<FakeJob>(std::move(*shared_plan), &num_jobs_));
       });
}

void FakeEngine::Submit(std::unique_ptr<AttentionJob> job, CallControl control, Callback done) {
  absl::Status error;
  {
    const std::lock_guard lock(mu_);
    error = submission_error_;
    for (int i = 0; i < kNumInputTensors; ++i)
      last_inputs_[i] = Text(job->input(static_cast<InputTensor>(i)));
  }
  if (!error.ok()) {
    job.reset();
    return done(error);
  }
  const auto held_job = std::make_shared<std::unique_ptr<AttentionJob>>(std::move(job));
  GoOn(std::move(control), [held_job, done = std::move(done)](absl::Status status) {
    if (!status.ok()) {
      held_job->reset();
      return done(status);
    }
    static_cast<FakeJob&>(**held_job).Compute();
    done(std::move(*held_job));
  });
}

void FakeEngine::AdmitMerge(
    const MergeParams& host_params, CallControl control,
    std::function<void(absl::StatusOr<std::unique_ptr<MergeJob>>)> admitted) {
  if (absl::Status error = AdmissionError(); !error.ok()) return admitted(error);
  GoOn(std::move(control), [host_params, admitted = std::move(admitted)](absl::Status status) {
    if (!status.ok()) return admitted(status);
    admitted(std::make_unique<FakeMerge>(host_params));
  });
}

bool FakeEngine::WaitUntilIdle(absl::Time deadline) {
  while (num_jobs_ > 0 && absl::Now() < deadline) absl::SleepFor(absl::Milliseconds(1));
  return num_jobs_ == 0;
}

}  // namespace attnd::testing
