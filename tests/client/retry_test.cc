#include "client/cpp/retry.h"

#include <gtest/gtest.h>

#include <random>

namespace attnd::internal {
namespace {

constexpr RetryOptions kOptions{.max_attempts = 10,
                                .initial_backoff = absl::Milliseconds(100),
                                .max_backoff = absl::Milliseconds(400)};

AttemptOutcome Outcome(absl::Status status) { return {.status = std::move(status)}; }

std::optional<absl::Duration> Delay(const AttemptOutcome& outcome, int attempts) {
  std::mt19937 random(attempts);
  return DelayBeforeRetry(kOptions, outcome, attempts, random);
}

TEST(RetryTest, BackoffStaysBelowABoundThatDoublesUpToTheLargest) {
  const AttemptOutcome outcome = Outcome(absl::UnavailableError(""));
  for (int attempts = 1; attempts < 10; ++attempts) {
    const absl::Duration bound = absl::Milliseconds(100 << std::min(attempts - 1, 2));
    const auto delay = Delay(outcome, attempts);
    ASSERT_TRUE(delay.has_value());
    EXPECT_GE(*delay, absl::ZeroDuration());
    EXPECT_LE(*delay, bound);
  }
}

TEST(RetryTest, BackoffIsRandom) {
  const AttemptOutcome outcome = Outcome(absl::UnavailableError(""));
  std::mt19937 random(1);
  EXPECT_NE(DelayBeforeRetry(kOptions, outcome, 1, random),
            DelayBeforeRetry(kOptions, outcome, 1, random));
}

TEST(RetryTest, TheServersDelayIsKept) {
  AttemptOutcome outcome = Outcome(absl::ResourceExhaustedError(""));
  outcome.hint.delay = absl::Seconds(7);
  const auto delay = Delay(outcome, 1);
  ASSERT_TRUE(delay.has_value());
  EXPECT_GE(*delay, absl::Seconds(7));
  EXPECT_LE(*delay, absl::Seconds(7.7));
}

TEST(RetryTest, TheLastAttemptStands) {
  EXPECT_TRUE(Delay(Outcome(absl::UnavailableError("")), 9).has_value());
  EXPECT_FALSE(Delay(Outcome(absl::UnavailableError("")), 10).has_value());
}

TEST(RetryTest, AnAnswerThatBeganIsNotAskedForAgain) {
  AttemptOutcome outcome = Outcome(absl::UnavailableError(""));
  outcome.answer_began = true;
  EXPECT_FALSE(Delay(outcome, 1).has_value());
}

TEST(RetryTest, OnlyARefusalWithoutADelayMayBeAboutSize) {
  const AttemptOutcome by_attnd = Outcome(absl::InvalidArgumentError(""));
  const AttemptOutcome by_grpc = Outcome(absl::ResourceExhaustedError(""));
  EXPECT_TRUE(MayBeRefusedBySize(by_attnd));
  EXPECT_TRUE(MayBeRefusedBySize(by_grpc));
  AttemptOutcome overload = by_grpc;
  overload.hint.delay = absl::ZeroDuration();
  EXPECT_FALSE(MayBeRefusedBySize(overload));
  AttemptOutcome forbidden = by_grpc;
  forbidden.hint.forbidden = true;
  EXPECT_FALSE(MayBeRefusedBySize(forbidden));
  AttemptOutcome late = by_attnd;
  late.answer_began = true;
  EXPECT_FALSE(MayBeRefusedBySize(late));
  EXPECT_FALSE(MayBeRefusedBySize(Outcome(absl::UnavailableError(""))));
  EXPECT_FALSE(MayBeRefusedBySize(Outcome(absl::OkStatus())));
}

TEST(RetryTest, OneBudgetCoversEveryRun) {
  Attempts attempts({.max_attempts = 3, .initial_backoff = absl::Microseconds(1)},
                    absl::InfiniteFuture());
  EXPECT_FALSE(attempts.Run([] { return Outcome(absl::InvalidArgumentError("")); }).ok());
  EXPECT_TRUE(attempts.any_left());
  EXPECT_FALSE(attempts.Run([] { return Outcome(absl::UnavailableError("")); }).ok());
  EXPECT_EQ(attempts.made(), 3);
  EXPECT_FALSE(attempts.any_left());
}

TEST(RetryTest, OtherCodesStandEvenWithADelay) {
  for (int code = 1; code <= 16; ++code) {
    AttemptOutcome outcome = Outcome(absl::Status(static_cast<absl::StatusCode>(code), ""));
    outcome.hint.delay = absl::Milliseconds(1);
    const bool repeatable =
        absl::IsUnavailable(outcome.status) || absl::IsResourceExhausted(outcome.status);
    EXPECT_EQ(Delay(outcome, 1).has_value(), repeatable) << outcome.status;
  }
}

}  // namespace
}  // namespace attnd::internal
