#include "server/engine/engine.h"

#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/engine/retry_info.h"
#include "server/telemetry/metrics.h"
#include "tests/server/engine/simple_problem.h"
#include "tests/testing/device_under_test.h"
#include "tests/testing/failing_device.h"

namespace attnd {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using JobOr = absl::StatusOr<std::unique_ptr<AttentionJob>>;

constexpr std::int64_t kMemoryBytes = 1 << 20;

// Runs over a device that computes in staging memory, and over one that copies.
class EngineTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Device>> device =
        MakeDeviceUnderTest(kMemoryBytes, kMemoryBytes);
    if (device.status().code() == absl::StatusCode::kFailedPrecondition)
      GTEST_SKIP() << device.status().message();
    ASSERT_TRUE(device.ok()) << device.status();
    device_.emplace(*std::move(device));
    device_->set_unified_memory(GetParam());
    engine_ = *CreateEngine({}, *device_, &metrics_);
  }

  AttentionPlan Plan(const AttentionProblem& problem) {
    return *MakeAttentionPlan(problem, device_->info().traits);
  }

  std::future<JobOr> AdmitLater(const AttentionProblem& problem, CallControl control = {}) {
    auto promise = std::make_shared<std::promise<JobOr>>();
    engine_->Admit(Plan(problem), std::move(control),
                   [promise](JobOr job) { promise->set_value(std::move(job)); });
    return promise->get_future();
  }
  JobOr Admit(const AttentionProblem& problem, CallControl control = {}) {
    return AdmitLater(problem, std::move(control)).get();
  }

  std::future<JobOr> SubmitLater(std::unique_ptr<AttentionJob> job, CallControl control = {}) {
    auto promise = std::make_shared<std::promise<JobOr>>();
    engine_->Submit(std::move(job), std::move(control),
                    [promise](JobOr done) { promise->set_value(std::move(done)); });
    return promise->get_future();
  }
  JobOr Submit(std::unique_ptr<AttentionJob> job, CallControl control = {}) {
    return SubmitLater(std::move(job), std::move(control)).get();
  }

  JobOr Compute(const AttentionProblem& problem, float value) {
    JobOr job = Admit(problem);
    if (!job.ok()) return job;
    FillInputs(**job, value);
    return Submit(*std::move(job));
  }

  absl::Status Merge(const MergeParams& params, const CallControl& control = {},
                     JobSeconds* seconds = nullptr) {
    std::promise<absl::StatusOr<std::unique_ptr<MergeJob>>> promise;
    engine_->AdmitMerge(params, control, [&promise](absl::StatusOr<std::unique_ptr<MergeJob>> job) {
      promise.set_value(std::move(job));
    });
    const absl::StatusOr<std::unique_ptr<MergeJob>> job = promise.get_future().get();
    if (!job.ok()) return job.status();
    absl::Status status = (*job)->Run(control);
    if (seconds != nullptr) *seconds = (*job)->seconds();
    return status;
  }

  void ExpectNothingHeld() {
    EXPECT_TRUE(engine_->WaitUntilIdle(absl::Now() + absl::Seconds(10)));
    EXPECT_EQ(engine_->requests_in_flight(), 0);
    EXPECT_EQ(device_->device_usage().used_bytes, 0);
    EXPECT_EQ(device_->staging_usage().used_bytes, 0);
    const std::string text = metrics_.TextExposition();
    EXPECT_THAT(text, HasSubstr("attnd_pool_bytes{pool=\"device\",state=\"reserved\"} 0\n"));
    EXPECT_THAT(text, HasSubstr("attnd_pool_bytes{pool=\"staging\",state=\"reserved\"} 0\n"));
  }

  Metrics metrics_{BuildInfo{"0", "cpu", "test"}};
  std::optional<FailingDevice> device_;
  std::unique_ptr<Engine> engine_;
};

INSTANTIATE_TEST_SUITE_P(Memory, EngineTest, ::testing::ValuesIn(UnifiedMemoryKinds()),
                         [](const auto& memory) { return memory.param ? "Unified" : "Discrete"; });

// Small enough to run on the submitting thread where memory is unified, and large enough for a
// worker.
AttentionProblem SmallProblem() { return MakeProblem(2, 3, 8); }
AttentionProblem LargeProblem() { return MakeProblem(256, 256, 32); }
// Fits the budgets, but not twice.
AttentionProblem MostOfTheMemory() { return MakeProblem(4000, 1, 32); }

TEST_P(EngineTest, ComputesSmallAndLargeProblems) {
  for (const AttentionProblem& problem : {SmallProblem(), LargeProblem()}) {
    const JobOr job = Compute(problem, 2.5f);
    ASSERT_TRUE(job.ok()) << job.status();
    const absl::Span<const std::byte> out = (*job)->output(OutputTensor::kOut);
    const auto elements = static_cast<std::int64_t>(out.size() / sizeof(float));
    ASSERT_EQ(elements, problem.params.seqlen_q * problem.params.head_dim_v);
    for (std::int64_t i = 0; i < elements; ++i) ASSERT_NEAR(FloatAt(out, i), 2.5f, 1e-5f) << i;
    EXPECT_GE((*job)->seconds().queue, 0);
    EXPECT_GT((*job)->seconds().stages.compute, 0);
  }
}

// Whoever submits has other calls to serve.
TEST_P(EngineTest, OnlyWhatTakesMicrosecondsRunsOnTheSubmittingThread) {
  AttentionProblem without_keys = MakeProblem(4000, 0, 32);
  AttentionProblem one_key = MostOfTheMemory();
  AttentionProblem by_slow_kernel = MakeProblem(50, 50, 32);
  by_slow_kernel.algorithm = "reference";
  AttentionProblem without_rows = MakeProblem(0, 3000, 32);
  without_rows.want_diagnostics = true;
  const std::pair<AttentionProblem, bool> cases[] = {
      {SmallProblem(), true},  {MakeProblem(50, 50, 32), true},
      {LargeProblem(), false}, {without_keys, false},
      {one_key, false},        {by_slow_kernel, false},
      {without_rows, false}};
  std::thread::id thread;
  device_->on_stage = [&thread](Stage) {
    thread = std::this_thread::get_id();
    return absl::OkStatus();
  };
  for (const auto& [problem, small] : cases) {
    SCOPED_TRACE(absl::StrCat(problem.params.seqlen_q, " x ", problem.params.seqlen_k));
    ASSERT_TRUE(Compute(problem, 1.0f).ok());
    EXPECT_EQ(thread == std::this_thread::get_id(), small && GetParam());
  }
}

TEST_P(EngineTest, ReturnsLseProbsAndDiagnosticsWhenAsked) {
  AttentionProblem problem = SmallProblem();
  problem.want_lse = problem.want_probs = problem.want_diagnostics = true;
  const JobOr job = Compute(problem, 1.0f);
  ASSERT_TRUE(job.ok()) << job.status();
  // Every score is 1 * 8, over three keys.
  EXPECT_NEAR(FloatAt((*job)->output(OutputTensor::kLse), 0), 8 + std::log(3.0f), 1e-5f);
  EXPECT_NEAR(FloatAt((*job)->output(OutputTensor::kProbs), 5), 1.0f / 3, 1e-6f);
  ASSERT_NE((*job)->diagnostics(), nullptr);
  EXPECT_NEAR((*job)->diagnostics()->score_max, 8.0f, 1e-5f);
}

TEST_P(EngineTest, DiagnosticsWorkWithoutLse) {
  AttentionProblem problem = SmallProblem();
  problem.want_diagnostics = true;
  const JobOr job = Compute(problem, 1.0f);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE((*job)->output(OutputTensor::kLse).empty());
  ASSERT_NE((*job)->diagnostics(), nullptr);
  EXPECT_NEAR((*job)->diagnostics()->lse_min, 8 + std::log(3.0f), 1e-5f);
  EXPECT_EQ((*job)->diagnostics()->rows_fully_masked, 0);
}

TEST_P(EngineTest, SmallArraysReachTheKernel) {
  AttentionProblem problem = SmallProblem();
  problem.lengths_k = {1};
  JobOr job = Admit(problem);
  ASSERT_TRUE(job.ok()) << job.status();
  FillInputs(**job, 1.0f);
  const float first_row = 7.0f;
  for (int d = 0; d < 8; ++d) std::memcpy(&(*job)->input(InputTensor::kV)[d * 4], &first_row, 4);
  const JobOr done = Submit(*std::move(job));
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_EQ(FloatAt((*done)->output(OutputTensor::kOut), 0), 7.0f);
}

TEST_P(EngineTest, AnEmptyProblemSucceeds) {
  const JobOr job = Compute(MakeProblem(0, 0, 8), 1.0f);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE((*job)->output(OutputTensor::kOut).empty());
}

TEST_P(EngineTest, TheMemoryTakenIsExactlyThePlans) {
  AttentionProblem problem = LargeProblem();
  problem.want_diagnostics = true;
  JobOr job = Admit(problem);
  ASSERT_TRUE(job.ok()) << job.status();
  const MemoryNeed need = NeedOf((*job)->plan(), device_->info());
  EXPECT_EQ(device_->staging_usage().used_bytes, need.staging_bytes);
  EXPECT_EQ(device_->device_usage().used_bytes, need.device_bytes);
  EXPECT_EQ(engine_->requests_in_flight(), 1);

  FillInputs(**job, 1.0f);
  JobOr done = Submit(*std::move(job));
  ASSERT_TRUE(done.ok()) << done.status();
  // A finished job holds its outputs and nothing else.
  EXPECT_EQ(device_->staging_usage().used_bytes, RoundUpToBuffer((*done)->plan().output_bytes));
  EXPECT_EQ(device_->device_usage().used_bytes, 0);
  EXPECT_TRUE((*done)->input(InputTensor::kQ).empty());
  EXPECT_EQ(engine_->requests_in_flight(), 1);

  done->reset();
  ExpectNothingHeld();
}

TEST_P(EngineTest, AJobDroppedBeforeItIsSubmittedGivesEverythingBack) {
  ASSERT_TRUE(Admit(LargeProblem()).ok());
  ExpectNothingHeld();
}

TEST_P(EngineTest, EachFailingAllocationIsReportedAndNothingStays) {
  AttentionProblem problem = SmallProblem();
  problem.want_diagnostics = true;
  int failing = 0;
  for (;; ++failing) {
    int allocations = 0;
    device_->on_allocate = [&allocations, failing] {
      return allocations++ == failing ? absl::InternalError("no memory") : absl::OkStatus();
    };
    const absl::Status status = Admit(problem).status();
    if (allocations <= failing) {
      EXPECT_TRUE(status.ok()) << status;
      break;
    }
    EXPECT_EQ(status, absl::InternalError("no memory"));
    ExpectNothingHeld();
  }
  EXPECT_EQ(failing, GetParam() ? 3 : 5);
}

TEST_P(EngineTest, EachFailingStageIsReportedAndNothingStays) {
  for (const AttentionProblem& problem : {SmallProblem(), LargeProblem()}) {
    for (const Stage failing : {Stage::kCopyIn, Stage::kCompute, Stage::kCopyOut}) {
      device_->on_stage = [failing](Stage stage) {
        return stage == failing ? absl::InternalError("stage failed") : absl::OkStatus();
      };
      EXPECT_EQ(Compute(problem, 1.0f).status(), absl::InternalError("stage failed"));
      ExpectNothingHeld();
    }
  }
}

TEST_P(EngineTest, CancellationAndDeadlineAreSeenBeforeEachStage) {
  for (const Stage last : {Stage::kCopyIn, Stage::kCompute}) {
    bool cancelled = false;
    device_->on_stage = [&cancelled, last](Stage stage) {
      cancelled = stage == last;
      return absl::OkStatus();
    };
    JobOr job = Admit(LargeProblem());
    ASSERT_TRUE(job.ok());
    CallControl control;
    control.cancelled = [&cancelled] { return cancelled; };
    EXPECT_EQ(Submit(*std::move(job), control).status().code(), absl::StatusCode::kCancelled);
    ExpectNothingHeld();
  }
  device_->on_stage = nullptr;
  JobOr job = Admit(LargeProblem());
  ASSERT_TRUE(job.ok());
  CallControl overdue;
  overdue.deadline = absl::InfinitePast();
  EXPECT_EQ(Submit(*std::move(job), overdue).status().code(), absl::StatusCode::kDeadlineExceeded);
  ExpectNothingHeld();
}

// The fourth look comes after those before each stage: only a computation that is looked at on its
// way can be stopped by it.
TEST_P(EngineTest, AComputationIsStoppedOnItsWayAndItsResultIsNeverSeen) {
  AttentionProblem problem = LargeProblem();
  problem.algorithm = "reference";
  JobOr job = Admit(problem);
  ASSERT_TRUE(job.ok()) << job.status();
  FillInputs(**job, 1.0f);
  std::atomic<int> looks{0};
  CallControl control;
  control.cancelled = [&looks] { return ++looks > 3; };
  EXPECT_EQ(Submit(*std::move(job), control).status().code(), absl::StatusCode::kCancelled);
  ExpectNothingHeld();
  EXPECT_THAT(metrics_.TextExposition(), HasSubstr("attnd_compute_seconds_count 0\n"));
  EXPECT_TRUE(Compute(problem, 1.0f).ok());
}

TEST_P(EngineTest, StagesOfTwoJobsOverlap) {
  // Each job waits, in the stage before its computation, until the other has come there too:
  // without overlap neither would ever go on.
  std::barrier both_there(2);
  device_->on_stage = [&both_there](Stage stage) {
    if (stage == Stage::kCompute) both_there.arrive_and_wait();
    return absl::OkStatus();
  };
  std::vector<std::future<JobOr>> done;
  for (int i = 0; i < 2; ++i) {
    JobOr job = Admit(LargeProblem());
    ASSERT_TRUE(job.ok());
    FillInputs(**job, 1.0f);
    done.push_back(SubmitLater(*std::move(job)));
  }
  for (std::future<JobOr>& job : done) EXPECT_TRUE(job.get().ok());
}

TEST_P(EngineTest, AWaitingRequestIsAdmittedWhenAnotherGivesItsMemoryBack) {
  const AttentionProblem most = MostOfTheMemory();
  JobOr first = Admit(most);
  ASSERT_TRUE(first.ok()) << first.status();
  std::future<JobOr> second = AdmitLater(most);
  EXPECT_EQ(second.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  first->reset();
  EXPECT_TRUE(second.get().ok());
}

TEST_P(EngineTest, AWaitingRequestIsAnsweredAtItsDeadlineOrWhenCancelled) {
  const AttentionProblem most = MostOfTheMemory();
  const JobOr holder = Admit(most);
  ASSERT_TRUE(holder.ok()) << holder.status();
  CallControl soon;
  soon.deadline = absl::Now() + absl::Milliseconds(20);
  EXPECT_EQ(Admit(most, soon).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_GE(absl::Now(), soon.deadline);

  std::atomic<bool> cancelled{false};
  CallControl cancellable;
  cancellable.cancelled = [&cancelled] { return cancelled.load(); };
  std::future<JobOr> waiting = AdmitLater(most, cancellable);
  cancelled = true;
  EXPECT_EQ(waiting.get().status().code(), absl::StatusCode::kCancelled);
}

// While another job keeps the only worker busy.
TEST_P(EngineTest, AJobThatWaitsForAWorkerIsAnsweredAtItsDeadlineOrWhenCancelled) {
  engine_ = nullptr;
  engine_ = *CreateEngine({.num_workers = 1}, *device_, &metrics_);
  std::promise<void> busy;
  std::promise<void> release;
  device_->on_stage = [&busy, released = release.get_future().share()](Stage stage) {
    if (stage != Stage::kCopyIn) return absl::OkStatus();
    busy.set_value();
    released.wait();
    return absl::OkStatus();
  };
  std::vector<std::unique_ptr<AttentionJob>> jobs;
  for (int i = 0; i < 3; ++i) {
    JobOr job = Admit(LargeProblem());
    ASSERT_TRUE(job.ok()) << job.status();
    FillInputs(**job, 1.0f);
    jobs.push_back(*std::move(job));
  }
  std::future<JobOr> running = SubmitLater(std::move(jobs[0]));
  busy.get_future().wait();

  CallControl soon;
  soon.deadline = absl::Now() + absl::Milliseconds(20);
  std::future<JobOr> late = SubmitLater(std::move(jobs[1]), soon);
  std::atomic<bool> cancelled{false};
  CallControl cancellable;
  cancellable.cancelled = [&cancelled] { return cancelled.load(); };
  std::future<JobOr> dropped = SubmitLater(std::move(jobs[2]), cancellable);
  EXPECT_EQ(dropped.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  cancelled = true;
  EXPECT_EQ(late.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_EQ(dropped.wait_for(std::chrono::seconds(10)), std::future_status::ready);
  EXPECT_GE(absl::Now(), soon.deadline);
  EXPECT_EQ(engine_->requests_in_flight(), 1);

  release.set_value();
  EXPECT_EQ(late.get().status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(dropped.get().status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(running.get().ok());
  ExpectNothingHeld();
}

TEST_P(EngineTest, WhatCanNeverFitIsRefused) {
  const absl::Status status = Admit(MakeProblem(100000, 1, 32)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("bytes of staging memory, accepted: at most 1048576 "
                              "(staging_memory_bytes): q 12800000, k 128, v 128, out 12800000"),
                    EndsWith(" bytes")));
  EXPECT_THAT(metrics_.TextExposition(),
              HasSubstr("attnd_rejected_total{reason=\"never_fits\"} 1\n"));
}

// Out of memory in the middle of its tasks.
absl::Status ThrowBadAlloc(const AttentionParams&, const ExecutionContext& context) {
  RunTasks(context.parallel_for, 64, [](std::int64_t i) {
    if (i % 2 == 1) throw std::bad_alloc();
  });
  return absl::OkStatus();
}

absl::Status ThrowSomethingElse(const AttentionParams&, const ExecutionContext&) {
  throw std::out_of_range("index 7");
}

TEST_P(EngineTest, AnExceptionEndsItsRequestAlone) {
  const auto compute_by = [this](auto run) {
    const KernelImplementation kernel{.algorithm = "fused", .name = "throwing", .run = run};
    AttentionPlan plan = Plan(LargeProblem());
    plan.kernel = &kernel;
    std::promise<JobOr> admitted;
    engine_->Admit(std::move(plan), {},
                   [&admitted](JobOr job) { admitted.set_value(std::move(job)); });
    JobOr job = admitted.get_future().get();
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? Submit(*std::move(job)).status() : job.status();
  };
  const absl::Status out_of_memory = compute_by(&ThrowBadAlloc);
  EXPECT_EQ(out_of_memory.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(out_of_memory.message(), "out of host memory");
  EXPECT_TRUE(RetryDelayOf(out_of_memory).has_value());
  const absl::Status other = compute_by(&ThrowSomethingElse);
  EXPECT_EQ(other.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(other.message(), HasSubstr("index 7"));

  EXPECT_TRUE(Compute(LargeProblem(), 1.0f).ok());
  ExpectNothingHeld();
}

TEST_P(EngineTest, DrainingRefusesTheNewAndFinishesTheAdmitted) {
  JobOr job = Admit(LargeProblem());
  ASSERT_TRUE(job.ok());
  engine_->StartDraining();
  EXPECT_EQ(Admit(SmallProblem()).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(engine_->WaitUntilIdle(absl::Now()));
  FillInputs(**job, 1.0f);
  EXPECT_TRUE(Submit(*std::move(job)).ok());
  ExpectNothingHeld();
}

TEST_P(EngineTest, ALostDeviceFailsWhoeverWaitsAndRefusesTheNew) {
  JobOr holder = Admit(MostOfTheMemory());
  ASSERT_TRUE(holder.ok()) << holder.status();
  std::future<JobOr> waiting = AdmitLater(MostOfTheMemory());
  device_->on_stage = [this](Stage) {
    device_->Break(absl::InternalError("illegal address"));
    return absl::InternalError("illegal address");
  };
  EXPECT_EQ(Submit(*std::move(holder)).status(), absl::InternalError("illegal address"));
  EXPECT_EQ(waiting.get().status().code(), absl::StatusCode::kUnavailable);
  const absl::Status refused = Admit(SmallProblem()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("illegal address"));
  EXPECT_THAT(metrics_.TextExposition(), HasSubstr("attnd_device_healthy 0\n"));
  ExpectNothingHeld();
}

// Nothing was done for it: its caller may try elsewhere.
TEST_P(EngineTest, AJobThatWaitsForAWorkerWhenTheDeviceIsLostIsRefused) {
  engine_ = nullptr;
  engine_ = *CreateEngine({.num_workers = 1}, *device_, &metrics_);
  std::promise<void> release;
  device_->on_stage = [this, released = release.get_future().share()](Stage) {
    released.wait();
    device_->Break(absl::InternalError("illegal address"));
    return absl::InternalError("illegal address");
  };
  std::vector<std::future<JobOr>> done;
  for (int i = 0; i < 2; ++i) {
    JobOr job = Admit(LargeProblem());
    ASSERT_TRUE(job.ok()) << job.status();
    done.push_back(SubmitLater(*std::move(job)));
  }
  release.set_value();
  EXPECT_EQ(done[0].get().status(), absl::InternalError("illegal address"));
  const absl::Status refused = done[1].get().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("illegal address"));
  ExpectNothingHeld();
}

TEST_P(EngineTest, MergesPartialResultsInHostMemory) {
  // Two parts of equal weight, one row of two elements.
  const std::vector<float> out_parts = {1, 2, 3, 4};
  const std::vector<float> lse_parts = {0, 0};
  std::vector<float> out(2);
  float lse = 0;
  MergeParams params;
  params.num_parts = 2;
  params.rows = 1;
  params.dim = 2;
  params.out_parts = out_parts.data();
  params.lse_parts = lse_parts.data();
  params.out = out.data();
  params.lse = &lse;
  JobSeconds seconds;
  ASSERT_TRUE(Merge(params, {}, &seconds).ok());
  EXPECT_GT(seconds.stages.compute, 0);
  EXPECT_GE(seconds.queue, 0);
  EXPECT_THAT(out, ::testing::ElementsAre(2, 3));
  EXPECT_NEAR(lse, std::log(2.0f), 1e-6f);
  ExpectNothingHeld();

  CallControl overdue;
  overdue.deadline = absl::InfinitePast();
  EXPECT_EQ(Merge(params, overdue).code(), absl::StatusCode::kDeadlineExceeded);
  params.num_parts = -1;
  EXPECT_EQ(Merge(params).code(), absl::StatusCode::kInvalidArgument);
  engine_->StartDraining();
  params.num_parts = 2;
  EXPECT_EQ(Merge(params).code(), absl::StatusCode::kUnavailable);
}

TEST_P(EngineTest, FinishedJobsAreCounted) {
  ASSERT_TRUE(Compute(SmallProblem(), 1.0f).ok());
  const std::string text = metrics_.TextExposition();
  EXPECT_THAT(text, HasSubstr("attnd_compute_seconds_count 1\n"));
  EXPECT_THAT(text, HasSubstr("attnd_queue_seconds_count 1\n"));
  // q and out of 2 rows, k and v of 3, of 32 bytes each; in its block each begins at a multiple of
  // 256 bytes.
  EXPECT_THAT(text, HasSubstr("attnd_tensor_bytes_total 320\n"));
  const bool copied = !GetParam();
  EXPECT_THAT(text, HasSubstr(absl::StrCat("attnd_copy_bytes_total{direction=\"in\"} ",
                                           copied ? 608 : 0, "\n")));
  EXPECT_THAT(text, HasSubstr(absl::StrCat("attnd_copy_bytes_total{direction=\"out\"} ",
                                           copied ? 64 : 0, "\n")));
}

TEST_P(EngineTest, AnEngineWithoutMetricsWorks) {
  engine_.reset();
  engine_ = *CreateEngine({}, *device_, nullptr);
  EXPECT_TRUE(Compute(SmallProblem(), 1.0f).ok());
}

// The computation would take minutes.
TEST(EngineOnCpuTest, ADeadlineThatPassesDuringAComputationFreesItsWorker) {
  const std::unique_ptr<Device> device = *CreateCpuDevice({.num_threads = 3});
  const std::unique_ptr<Engine> engine = *CreateEngine({.num_workers = 1}, *device, nullptr);
  const auto compute_within = [&](absl::Duration time, const AttentionProblem& problem) {
    std::promise<JobOr> promise;
    engine->Admit(*MakeAttentionPlan(problem, device->info().traits), {}, [&](JobOr job) {
      ASSERT_TRUE(job.ok()) << job.status();
      FillInputs(**job, 1.0f);
      CallControl control;
      control.deadline = absl::Now() + time;
      engine->Submit(*std::move(job), control,
                     [&promise](JobOr done) { promise.set_value(std::move(done)); });
    });
    return promise.get_future().get().status();
  };
  AttentionProblem problem = MakeProblem(50'000, 50'000, 64);
  problem.algorithm = "reference";
  const absl::Time start = absl::Now();
  EXPECT_EQ(compute_within(absl::Milliseconds(100), problem).code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(compute_within(absl::InfiniteDuration(), LargeProblem()).ok());
  EXPECT_LT(absl::Now(), start + absl::Seconds(20));
}

// On a CUDA device the reference is host code: it computes in staging memory and leaves the device
// alone.
TEST(EngineOnCudaTest, TheReferenceRunsOnTheHost) {
  FailingDevice device(
      *CreateCpuDevice({.device_memory_bytes = 0, .staging_memory_bytes = kMemoryBytes}));
  device.set_unified_memory(false);
  device.set_traits({.backend = Backend::kCuda, .compute_capability = 90});
  device.on_stage = [](Stage) { return absl::InternalError("the device must not be used"); };
  const std::unique_ptr<Engine> engine = *CreateEngine({}, device, nullptr);

  AttentionProblem problem = SmallProblem();
  problem.algorithm = "reference";
  problem.want_diagnostics = true;
  std::promise<JobOr> promise;
  engine->Admit(*MakeAttentionPlan(problem, device.info().traits), {}, [&](JobOr job) {
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(device.staging_usage().used_bytes,
              NeedOf((*job)->plan(), device.info()).staging_bytes);
    FillInputs(**job, 3.0f);
    engine->Submit(*std::move(job), {},
                   [&promise](JobOr done) { promise.set_value(std::move(done)); });
  });
  const JobOr done = promise.get_future().get();
  ASSERT_TRUE(done.ok()) << done.status();
  EXPECT_NEAR(FloatAt((*done)->output(OutputTensor::kOut), 0), 3.0f, 1e-6f);
}

}  // namespace
}  // namespace attnd
