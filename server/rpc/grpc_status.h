// absl::Status -> the status that a caller sees.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"

namespace attnd {

// Metadata by which gRPC clients that retry by themselves learn when (gRFC A6).
inline constexpr char kRetryPushbackKey[] = "grpc-retry-pushback-ms";

// The same code number; the message cut to at most 1 KiB and freed of source locations; payloads as
// google.rpc details.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The same, and a retry delay, if the status has one, becomes trailing metadata of the call. Errors
// of this server's own making (Internal, Unknown, DataLoss) are logged in full.
grpc::Status FinishStatus(const absl::Status& status, grpc::ServerContextBase* context);

}  // namespace attnd
