// Whether and when a failed call is made again: see RetryOptions in client.h.
#pragma once

#include <optional>

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

// Whether a refusal may be about the size of a message. attnd's own is InvalidArgument; gRPC's, of
// a message far beyond the limit, ResourceExhausted without the delay that attnd gives where it is
// overloaded. Both have other meanings, too.
bool MayBeRefusedBySize(const AttemptOutcome& outcome);

// The attempts of one call of this API: a budget for all of them, however they travel.
class Attempts {
 public:
  Attempts(const RetryOptions& options, absl::Time deadline)
      : options_(options), deadline_(deadline) {}

  // Calls `attempt` until it succeeds, must not be repeated, or could not be within the budget or
  // before the deadline. Returns the last outcome's status. May be called again while any are left.
  absl::Status Run(absl::FunctionRef<AttemptOutcome()> attempt);

  int made() const { return made_; }
  bool any_left() const { return made_ < options_.max_attempts; }
  absl::Time deadline() const { return deadline_; }
  // Of the last attempt.
  bool may_be_refused_by_size() const { return may_be_refused_by_size_; }

 private:
  const RetryOptions options_;
  const absl::Time deadline_;
  int made_ = 0;
  bool may_be_refused_by_size_ = false;
};

}  // namespace attnd::internal
