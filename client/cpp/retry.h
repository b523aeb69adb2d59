// Whether and when a failed call is made again: see RetryOptions in client.h.
#pragma once

#include "absl/functional/function_ref.h"
#include "absl/random/bit_gen_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "attnd/client.h"
#include "client/cpp/status_details.h"

namespace attnd::internal {

// How one attempt of a call ended.
struct AttemptOutcome {
  absl::Status status;
  RetryHint hint = {};
  bool answer_began = false;  // part of a result had arrived
};

// How long to wait before another attempt, after `attempts` have been made; std::nullopt: let the
// failure stand.
std::optional<absl::Duration> DelayBeforeRetry(const RetryOptions& options,
                                               const AttemptOutcome& outcome, int attempts,
                                               absl::BitGenRef random);

// Calls `attempt` until it succeeds, must not be repeated, or could not be repeated before
// `deadline`. Returns the last outcome's status; `attempts` counts the calls.
absl::Status RunWithRetries(const RetryOptions& options, absl::Time deadline,
                            absl::FunctionRef<AttemptOutcome()> attempt, int& attempts);

}  // namespace attnd::internal
