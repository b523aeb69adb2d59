// Thousands of requests that end in every possible way, from several threads at once: afterwards
// every byte is back.
#include <atomic>
#include <future>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "tests/server/engine/simple_problem.h"
#include "tests/testing/device_under_test.h"
#include "tests/testing/failing_device.h"

namespace attnd {
namespace {

using JobOr = absl::StatusOr<std::unique_ptr<AttentionJob>>;

constexpr int kThreads = 4;
constexpr int kRequestsPerThread = 500;

CallControl RandomControl(std::mt19937& random,
                          const std::shared_ptr<std::atomic<bool>>& cancelled) {
  CallControl control;
  control.priority = static_cast<int>(random() % 3);
  if (random() % 3 == 0) control.deadline = absl::Now() + absl::Microseconds(random() % 3000);
  if (random() % 2 == 0) control.cancelled = [cancelled] { return cancelled->load(); };
  return control;
}

// One request, from admission to whatever end it comes to. Returns its last status.
absl::Status LiveThrough(Engine& engine, std::mt19937& random) {
  AttentionProblem problem = MakeProblem(1 + random() % 400, 1 + random() % 100, 16);
  problem.want_diagnostics = random() % 4 == 0;
  absl::StatusOr<AttentionPlan> plan =
      MakeAttentionPlan(std::move(problem), engine.device().info().traits);
  if (!plan.ok()) return plan.status();
  const auto cancelled = std::make_shared<std::atomic<bool>>(false);
  const CallControl control = RandomControl(random, cancelled);

  std::promise<JobOr> admitted;
  engine.Admit(*std::move(plan), control,
               [&admitted](JobOr job) { admitted.set_value(std::move(job)); });
  if (random() % 4 == 0) *cancelled = true;
  JobOr job = admitted.get_future().get();
  if (!job.ok()) return job.status();
  if (random() % 8 == 0) return absl::AbortedError("dropped before it was submitted");
  FillInputs(**job, 1.0f);
  if (random() % 8 == 0) *cancelled = true;

  std::promise<JobOr> computed;
  engine.Submit(*std::move(job), control,
                [&computed](JobOr done) { computed.set_value(std::move(done)); });
  return computed.get_future().get().status();
}

class EngineStressTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Memory, EngineStressTest, ::testing::ValuesIn(UnifiedMemoryKinds()),
                         [](const auto& memory) { return memory.param ? "Unified" : "Discrete"; });

TEST_P(EngineStressTest, EveryByteIsBackAfterTwoThousandRandomRequests) {
  // So little memory that requests wait for one another.
  absl::StatusOr<std::unique_ptr<Device>> made = MakeDeviceUnderTest(160 << 10, 128 << 10);
  if (made.status().code() == absl::StatusCode::kFailedPrecondition)
    GTEST_SKIP() << made.status().message();
  ASSERT_TRUE(made.ok()) << made.status();
  FailingDevice device(*std::move(made));
  device.set_unified_memory(GetParam());
  std::atomic<unsigned> events{0};
  device.on_allocate = [&events] {
    return ++events % 97 == 0 ? absl::InternalError("allocation") : absl::OkStatus();
  };
  device.on_stage = [&events](Stage) {
    return ++events % 61 == 0 ? absl::InternalError("stage") : absl::OkStatus();
  };
  const std::unique_ptr<Engine> engine =
      *CreateEngine({.max_queued_requests = 2, .num_workers = 3}, device, nullptr);

  std::vector<std::thread> threads;
  std::atomic<int> by_code[17] = {};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < kRequestsPerThread; ++i)
        ++by_code[static_cast<int>(LiveThrough(*engine, random).code())];
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_TRUE(engine->WaitUntilIdle(absl::Now() + absl::Seconds(30)));
  EXPECT_EQ(engine->requests_in_flight(), 0);
  EXPECT_EQ(device.device_usage().used_bytes, 0);
  EXPECT_EQ(device.staging_usage().used_bytes, 0);
  // The run was worth something only if requests did end in these ways.
  for (const absl::StatusCode code :
       {absl::StatusCode::kOk, absl::StatusCode::kCancelled, absl::StatusCode::kInternal,
        absl::StatusCode::kAborted, absl::StatusCode::kDeadlineExceeded}) {
    EXPECT_GT(by_code[static_cast<int>(code)], 0) << absl::StatusCodeToString(code);
  }
}

}  // namespace
}  // namespace attnd
