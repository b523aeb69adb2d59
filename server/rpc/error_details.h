// google.rpc error details as payloads of an absl::Status (RetryInfo is
// server/engine/retry_info.h's). Encoded by hand: google/rpc/*.proto is not packaged by the
// distributions, and a second copy of those descriptors in a process that links the real ones
// aborts it. Field numbers: https://github.com/googleapis/googleapis,
// google/rpc/error_details.proto and status.proto.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attnd {

inline constexpr char kBadRequestUrl[] = "type.googleapis.com/google.rpc.BadRequest";

// InvalidArgument "field: problem", with a BadRequest that names the field. `problem` says what was
// got and what is accepted.
absl::Status FieldError(absl::string_view field, absl::string_view problem);

// What the engine refuses because of `field`: InvalidArgument becomes a FieldError, anything else
// stays as it is.
absl::Status BlamedOn(absl::string_view field, const absl::Status& status);

// google.rpc.Status{code, message, details}, serialised, for `grpc-status-details-bin`: every
// payload of `status` becomes a detail. `message` is what the reply's own message says.
std::string EncodeRpcStatus(const absl::Status& status, absl::string_view message);

}  // namespace attnd
