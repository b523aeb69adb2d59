// One attempt of a unary call with raw messages.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>

#include <string>

#include "absl/time/time.h"
#include "client/cpp/retry.h"

namespace attnd::internal {

// Gives up at `deadline`; absl::InfiniteFuture() means never.
void SetDeadline(grpc::ClientContext& context, absl::Time deadline);

// Sends `request` to `method` ("/package.Service/Method") and waits for `response` on the calling
// thread, which does gRPC's input and output meanwhile. `response` is set if the outcome is OK.
AttemptOutcome CallUnary(grpc::GenericStub& stub, const std::string& method, absl::Time deadline,
                         const grpc::ByteBuffer& request, grpc::ByteBuffer& response);

}  // namespace attnd::internal
