// The retry delay that a RESOURCE_EXHAUSTED carries, as google.rpc.RetryInfo without a dependency
// on its message.
#pragma once

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace attnd {

// Type URL of the status payload, as gRPC's error model names it.
inline constexpr std::string_view kRetryInfoTypeUrl = "type.googleapis.com/google.rpc.RetryInfo";

// `status`, which must not be OK, with a payload that is a serialised google.rpc.RetryInfo. `delay`
// is at least 0.
absl::Status WithRetryDelay(absl::Status status, absl::Duration delay);

// The delay that WithRetryDelay put there; nothing if there is none.
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

}  // namespace attnd
