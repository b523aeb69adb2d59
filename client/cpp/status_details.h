// From a grpc::Status with google.rpc details to an absl::Status with payloads, and what it says
// about trying again.
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/status.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace attnd::internal {

// The same code and text, but for CANCELLED: this library cancels no call whose status it then
// tells, so that it comes from a server that stops, or has given this client up, and is
// Unavailable. Each google.protobuf.Any in the google.rpc.Status that the server attached becomes a
// payload under its type URL; details that do not parse are left out.
absl::Status ToAbslStatus(const grpc::Status& status);

// What a server said about repeating a refused call.
struct RetryHint {
  bool forbidden = false;               // it must not be repeated
  std::optional<absl::Duration> delay;  // how long to wait first
};

// From the trailing metadata `grpc-retry-pushback-ms` (gRFC A6: a value that is not a number of
// milliseconds >= 0 forbids repeating), else from a google.rpc.RetryInfo payload of `status`.
RetryHint RetryHintOf(const absl::Status& status, const grpc::ClientContext& finished_call);

}  // namespace attnd::internal
