// The two google.rpc error details that attnd sends, as payloads of an absl::Status. Encoded by
// hand: google/rpc/*.proto is not packaged by the distributions, and a second copy of those
// descriptors in a process that links the real ones aborts it. Field numbers:
// https://github.com/googleapis/googleapis, google/rpc/error_details.proto and status.proto.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attnd {

inline constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";
inline constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";

// InvalidArgument "field: problem", with a BadRequest that names the field. `problem` says what was
// got and what is accepted.
absl::Status FieldError(absl::string_view field, absl::string_view problem);

// Adds a RetryInfo: the caller may try again after `delay`.
void SetRetryDelay(absl::Status& status, absl::Duration delay);
// The delay of the status's RetryInfo; nothing if it has none.
std::optional<absl::Duration> RetryDelayOf(const absl::Status& status);

// google.rpc.Status{code, message, details}, serialised, for `grpc-status-details-bin`: every
// payload of `status` becomes a detail. `message` is what the reply's own message says.
std::string EncodeRpcStatus(const absl::Status& status, absl::string_view message);

}  // namespace attnd
