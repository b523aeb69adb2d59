// An engine that computes nothing, for tests of what stands above it.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "server/engine/engine.h"

namespace attnd::testing {

// Admits and finishes jobs at once, unless told otherwise; results are bytes that tests can
// predict. Thread-safe.
class FakeEngine final : public Engine {
 public:
  using Callback = std::function<void(absl::StatusOr<std::unique_ptr<AttentionJob>>)>;

  FakeEngine();

  // Byte `index` of any result's `tensor`.
  static std::byte ResultByte(OutputTensor tensor, std::int64_t index);

  // What admissions, and submissions, fail with from now on.
  void FailAdmissions(absl::Status status);
  void FailSubmissions(absl::Status status);
  // Keeps those who ask for admission, or who submit, waiting until Release.
  void Hold();
  // Lets those who wait go on, and all that come later. A call whose control says so ends with its
  // error.
  void Release();
  // Waits until `count` calls are held.
  void WaitUntilHeld(int count);
  // Waits until every held call has been told to stop.
  void WaitUntilHeldAreStopped();

  // The bytes of the last submitted job's input.
  std::string last_input(InputTensor tensor) const;
  int num_admitted() const { return num_admitted_; }
  // Jobs that exist, admitted, computing or being sent.
  int num_jobs() const { return num_jobs_; }

  void Admit(AttentionPlan plan, CallControl control, Callback admitted) override;
  void Submit(std::unique_ptr<AttentionJob> job, CallControl control, Callback done) override;
  void AdmitMerge(const MergeParams& host_params, CallControl control,
                  std::function<void(absl::StatusOr<std::unique_ptr<MergeJob>>)> admitted) override;
  const Device& device() const override { return *device_; }
  int requests_in_flight() const override { return num_jobs_; }
  void StartDraining() override { FailAdmissions(absl::UnavailableError("draining")); }
  bool WaitUntilIdle(absl::Time deadline) override;

 private:
  struct Held {
    CallControl control;
    std::function<void(absl::Status)> go_on;
  };

  absl::Status AdmissionError() const;
  // Runs `go_on` with `status` now, or later if the engine holds.
  void GoOn(CallControl control, std::function<void(absl::Status)> go_on);

  std::unique_ptr<Device> device_;
  std::atomic<int> num_admitted_{0};
  std::atomic<int> num_jobs_{0};

  mutable std::mutex mu_;
  std::condition_variable changed_;
  bool holding_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Held> held_ ABSL_GUARDED_BY(mu_);
  absl::Status admission_error_ ABSL_GUARDED_BY(mu_);
  absl::Status submission_error_ ABSL_GUARDED_BY(mu_);
  std::array<std::string, kNumInputTensors> last_inputs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace attnd::testing
