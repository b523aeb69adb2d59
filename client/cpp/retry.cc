#include "client/cpp/retry.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/random/distributions.h"
#include "absl/random/random.h"
#include "absl/time/clock.h"

namespace attnd::internal {
namespace {

// A random wait up to a bound that doubles with every attempt, so that callers refused together do
// not return together.
absl::Duration Backoff(const RetryOptions& options, int attempts, absl::BitGenRef random) {
  const double growth = std::exp2(std::min(attempts - 1, 30));
  const absl::Duration bound = std::min(options.max_backoff, options.initial_backoff * growth);
  return bound * absl::Uniform(random, 0.0, 1.0);
}

}  // namespace

std::optional<absl::Duration> DelayBeforeRetry(const RetryOptions& options,
                                               const AttemptOutcome& outcome, int attempts,
                                               absl::BitGenRef random) {
  if (attempts >= options.max_attempts || outcome.hint.forbidden || outcome.answer_began) {
    return std::nullopt;
  }
  const bool unavailable = absl::IsUnavailable(outcome.status);
  const bool exhausted = absl::IsResourceExhausted(outcome.status);
  if ((unavailable || exhausted) && outcome.hint.delay.has_value()) {
    // Never sooner than asked, and up to a tenth later.
    return *outcome.hint.delay * absl::Uniform(random, 1.0, 1.1);
  }
  if (unavailable) return Backoff(options, attempts, random);
  return std::nullopt;
}

bool MayBeRefusedBySize(const AttemptOutcome& outcome) {
  if (outcome.hint.forbidden || outcome.answer_began) return false;
  return absl::IsInvalidArgument(outcome.status) ||
         (absl::IsResourceExhausted(outcome.status) && !outcome.hint.delay.has_value());
}

absl::Status Attempts::Run(absl::FunctionRef<AttemptOutcome()> attempt) {
  absl::BitGen random;
  while (true) {
    ++made_;
    const AttemptOutcome outcome = attempt();
    may_be_refused_by_size_ = MayBeRefusedBySize(outcome);
    if (outcome.status.ok()) return outcome.status;
    const std::optional<absl::Duration> delay = DelayBeforeRetry(options_, outcome, made_, random);
    if (!delay.has_value() || absl::Now() + *delay >= deadline_) return outcome.status;
    absl::SleepFor(*delay);
  }
}

}  // namespace attnd::internal
