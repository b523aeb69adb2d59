#include "server/engine/admission.h"

#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/engine/retry_info.h"
#include "tests/testing/fake_clock.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;
using ::testing::StrEq;

class AdmissionTest : public ::testing::Test {
 protected:
  ~AdmissionTest() override {
    admission_.FailWaiters(RejectReason::kDraining, absl::UnavailableError("the test is over"));
    reservations_.clear();
  }

  struct Call {
    MemoryNeed need;
    CallControl control = {};
    std::function<absl::Status()> allocate = [] { return absl::OkStatus(); };
  };

  // Requests under `name`; what is answered is kept under it.
  void Request(const std::string& name, Call call) {
    admission_.Request(call.need, std::move(call.control), std::move(call.allocate),
                       [this, name](absl::StatusOr<Admitted> result) {
                         answers_[name] = result.status();
                         if (!result.ok()) return;
                         waited_[name] = result->waited;
                         reservations_[name] = std::move(result->reservation);
                       });
  }
  void Request(const std::string& name, std::int64_t staging_bytes, int priority = 0) {
    Request(name, {.need = {staging_bytes, 0}, .control = {.priority = priority}});
  }
  void Release(const std::string& name) {
    reservations_.erase(name);
    admission_.ServeWaiters();
  }

  bool Waits(const std::string& name) const { return answers_.count(name) == 0; }
  bool Holds(const std::string& name) const { return reservations_.count(name) == 1; }

  std::string MetricsText() const { return metrics_.TextExposition(); }

  FakeClock clock_;
  Metrics metrics_{BuildInfo{"0", "cpu", "test"}};
  Admission admission_{{.capacity = {.staging_bytes = 100, .device_bytes = 50},
                        .max_queued_requests = 3,
                        .max_queue_wait = absl::Seconds(30)},
                       &clock_,
                       &metrics_};
  std::map<std::string, absl::Status> answers_;
  std::map<std::string, absl::Duration> waited_;
  std::map<std::string, Reservation> reservations_;
};

TEST_F(AdmissionTest, WhatFitsIsAdmittedAtOnce) {
  Request("a", {.need = {60, 50}});
  EXPECT_TRUE(Holds("a"));
  EXPECT_EQ(waited_["a"], absl::ZeroDuration());
  EXPECT_EQ(admission_.in_flight(), 1);
  EXPECT_EQ(admission_.reserved().staging_bytes, 60);
  EXPECT_EQ(admission_.reserved().device_bytes, 50);
}

TEST_F(AdmissionTest, BothPoolsMustHaveRoom) {
  Request("a", {.need = {10, 50}});
  Request("b", {.need = {10, 1}});
  EXPECT_TRUE(Waits("b"));
  EXPECT_EQ(admission_.reserved().staging_bytes, 10);
  Release("a");
  EXPECT_TRUE(Holds("b"));
}

TEST_F(AdmissionTest, EveryByteComesBack) {
  Request("a", 60);
  Request("b", 40);
  reservations_.clear();
  EXPECT_EQ(admission_.reserved().staging_bytes, 0);
  EXPECT_EQ(admission_.in_flight(), 0);
}

TEST_F(AdmissionTest, AShrunkReservationMakesRoomButStaysInFlight) {
  Request("a", 100);
  Request("b", 70);
  reservations_["a"].ShrinkTo({.staging_bytes = 30, .device_bytes = 0});
  admission_.ServeWaiters();
  EXPECT_TRUE(Holds("b"));
  EXPECT_EQ(admission_.in_flight(), 2);
  reservations_.clear();
  EXPECT_EQ(admission_.reserved().staging_bytes, 0);
}

TEST_F(AdmissionTest, EqualsAreServedInOrderOfArrival) {
  Request("a", 100);
  Request("b", 100);
  Request("c", 100);
  Release("a");
  EXPECT_TRUE(Holds("b"));
  EXPECT_TRUE(Waits("c"));
  Release("b");
  EXPECT_TRUE(Holds("c"));
}

TEST_F(AdmissionTest, ALargeRequestIsNotOvertakenBySmallOnesThatWouldFit) {
  Request("a", 60);
  Request("large", 100);
  Request("small", 10);
  EXPECT_TRUE(Waits("large"));
  EXPECT_TRUE(Waits("small"));
  Release("a");
  EXPECT_TRUE(Holds("large"));
  EXPECT_TRUE(Waits("small"));
}

TEST_F(AdmissionTest, HigherPriorityGoesFirst) {
  Request("a", 100);
  Request("low", 100, 0);
  Request("high", 100, 1);
  Release("a");
  EXPECT_TRUE(Holds("high"));
  EXPECT_TRUE(Waits("low"));
}

TEST_F(AdmissionTest, ALevelOfPriorityOvertakesWhoeverArrivedOneSecondBefore) {
  Request("a", 100);
  Request("early", 100, 0);
  clock_.Advance(absl::Milliseconds(1500));
  Request("late", 100, 0);
  Request("high", 100, 1);
  std::string holder = "a";
  for (const char* next : {"early", "high", "late"}) {
    Release(std::exchange(holder, next));
    EXPECT_TRUE(Holds(next)) << next;
  }
}

TEST_F(AdmissionTest, WhatCanNeverFitIsRefusedNamingNeedAndLimit) {
  Request("a", 101);
  EXPECT_EQ(answers_["a"].code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      answers_["a"].message(),
      StrEq("needs 101 bytes of staging memory, accepted: at most 100 (staging_memory_bytes)"));
  Request("b", {.need = {1, 51}});
  EXPECT_EQ(answers_["b"].code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(answers_["b"].message(),
              StrEq("needs 51 bytes of device memory, accepted: at most 50 (device_memory_bytes)"));
}

TEST_F(AdmissionTest, AFullQueueRefusesWithARetryDelay) {
  Request("a", 100);
  for (const char* name : {"b", "c", "d"}) Request(name, 1);
  EXPECT_EQ(admission_.queue_length(), 3);
  Request("e", 1);
  EXPECT_EQ(answers_["e"].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(answers_["e"].message(), "the queue is full: 3 others wait for memory");
  EXPECT_GT(RetryDelayOf(answers_["e"]).value_or(absl::ZeroDuration()), absl::ZeroDuration());
  EXPECT_EQ(admission_.queue_length(), 3);
}

TEST_F(AdmissionTest, TheRetryDelayFollowsTheLatestWait) {
  Request("a", 100);
  Request("b", 100);
  clock_.Advance(absl::Seconds(4));
  Release("a");
  EXPECT_EQ(waited_["b"], absl::Seconds(4));
  for (const char* name : {"c", "d", "e"}) Request(name, 1);
  Request("f", 1);
  EXPECT_EQ(RetryDelayOf(answers_["f"]), absl::Seconds(4));
}

TEST_F(AdmissionTest, AWaiterIsAnsweredAtItsDeadline) {
  Request("a", 100);
  const absl::Time deadline = clock_.Now() + absl::Seconds(2);
  Request("b", {.need = {1, 0}, .control = {.deadline = deadline}});
  EXPECT_EQ(admission_.ServeWaiters(), deadline);
  clock_.Advance(absl::Seconds(2) - absl::Nanoseconds(1));
  admission_.ServeWaiters();
  EXPECT_TRUE(Waits("b"));
  clock_.Advance(absl::Nanoseconds(1));
  admission_.ServeWaiters();
  EXPECT_EQ(answers_["b"].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(admission_.queue_length(), 0);
}

TEST_F(AdmissionTest, ACallWithoutADeadlineWaitsAsLongAsTheServerLetsIt) {
  Request("a", 100);
  Request("b", 1);
  EXPECT_EQ(admission_.ServeWaiters(), clock_.Now() + absl::Seconds(30));
  clock_.Advance(absl::Seconds(30));
  admission_.ServeWaiters();
  EXPECT_EQ(answers_["b"].code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(answers_["b"].message(), "no memory for 30s: 0 others wait for memory");
  EXPECT_TRUE(RetryDelayOf(answers_["b"]).has_value());
}

TEST_F(AdmissionTest, ACancelledWaiterIsAnsweredAtTheNextPoll) {
  Request("a", 100);
  std::atomic<bool> cancelled{false};
  Request("b",
          {.need = {1, 0}, .control = {.cancelled = [&cancelled] { return cancelled.load(); }}});
  EXPECT_EQ(admission_.ServeWaiters(), clock_.Now() + Admission::kCancellationPollInterval);
  EXPECT_TRUE(Waits("b"));
  cancelled = true;
  admission_.ServeWaiters();
  EXPECT_EQ(answers_["b"].code(), absl::StatusCode::kCancelled);
}

TEST_F(AdmissionTest, TheFirstInLineMakesWayWhenItsWaitIsOver) {
  Request("a", 60);
  Request("large", {.need = {100, 0}, .control = {.deadline = clock_.Now() + absl::Seconds(1)}});
  Request("small", 10);
  clock_.Advance(absl::Seconds(1));
  admission_.ServeWaiters();
  EXPECT_EQ(answers_["large"].code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Holds("small"));
}

TEST_F(AdmissionTest, AWaiterIsAnsweredOnlyByTheOneWhoServesWaiters) {
  Request("a", 100);
  Request("b", 1);
  reservations_.erase("a");
  Request("c", 1);
  EXPECT_TRUE(Waits("b"));
  EXPECT_TRUE(Waits("c"));
  admission_.ServeWaiters();
  EXPECT_TRUE(Holds("b"));
  EXPECT_TRUE(Holds("c"));
}

TEST_F(AdmissionTest, AnOverdueOrCancelledNewcomerIsNotAdmitted) {
  Request("late", {.need = {1, 0}, .control = {.deadline = clock_.Now()}});
  EXPECT_EQ(answers_["late"].code(), absl::StatusCode::kDeadlineExceeded);
  Request("gone", {.need = {1, 0}, .control = {.cancelled = [] { return true; }}});
  EXPECT_EQ(answers_["gone"].code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(admission_.in_flight(), 0);
}

TEST_F(AdmissionTest, AFragmentedPoolMakesARequestWaitWhileOthersHoldMemory) {
  Request("a", 10);
  int attempts = 0;
  Request("b", {.need = {10, 0}, .allocate = [&attempts] {
                  return ++attempts == 1 ? absl::ResourceExhaustedError("no gap")
                                         : absl::OkStatus();
                }});
  EXPECT_TRUE(Waits("b"));
  EXPECT_EQ(admission_.reserved().staging_bytes, 10);
  Release("a");
  EXPECT_TRUE(Holds("b"));
}

TEST_F(AdmissionTest, AnAllocationThatNobodyCanMakeRoomForFails) {
  Request("a",
          {.need = {10, 0}, .allocate = [] { return absl::ResourceExhaustedError("no gap"); }});
  EXPECT_EQ(answers_["a"], absl::ResourceExhaustedError("no gap"));
  EXPECT_EQ(admission_.reserved().staging_bytes, 0);
}

TEST_F(AdmissionTest, AnErrorOfTheAllocationIsTheAnswer) {
  Request("holder", 10);
  Request("a", {.need = {10, 0}, .allocate = [] { return absl::InternalError("device lost"); }});
  EXPECT_EQ(answers_["a"], absl::InternalError("device lost"));
  EXPECT_EQ(admission_.in_flight(), 1);
}

TEST_F(AdmissionTest, DrainingRefusesTheNewAndServesThoseWhoWait) {
  Request("a", 100);
  Request("b", 100);
  admission_.StartDraining();
  Request("c", 1);
  EXPECT_EQ(answers_["c"].code(), absl::StatusCode::kUnavailable);
  Release("a");
  EXPECT_TRUE(Holds("b"));
}

TEST_F(AdmissionTest, FailedWaitersGetTheReason) {
  Request("a", 100);
  Request("b", 1);
  admission_.FailWaiters(RejectReason::kUnhealthy, absl::UnavailableError("device lost"));
  EXPECT_EQ(answers_["b"], absl::UnavailableError("device lost"));
  EXPECT_TRUE(Holds("a"));
  EXPECT_THAT(MetricsText(), HasSubstr("attnd_rejected_total{reason=\"unhealthy\"} 1\n"));
  Request("c", 100);
  admission_.FailWaiters(RejectReason::kDraining, absl::UnavailableError("shutting down"));
  EXPECT_THAT(MetricsText(), HasSubstr("attnd_rejected_total{reason=\"unhealthy\"} 1\n"));
  EXPECT_THAT(MetricsText(), HasSubstr("attnd_rejected_total{reason=\"draining\"} 1\n"));
}

TEST_F(AdmissionTest, IdleMeansNobodyWaitsAndNothingIsHeld) {
  EXPECT_TRUE(admission_.WaitUntilIdle(absl::InfiniteFuture()));
  Request("a", 1);
  EXPECT_FALSE(admission_.WaitUntilIdle(absl::InfinitePast()));
  Release("a");
  EXPECT_TRUE(admission_.WaitUntilIdle(absl::InfinitePast()));
}

}  // namespace
}  // namespace attnd
