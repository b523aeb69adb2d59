#include "client/cpp/unary_call.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

namespace attnd::internal {

void SetDeadline(grpc::ClientContext& context, absl::Time deadline) {
  if (deadline != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(deadline));
}

AttemptOutcome CallUnary(grpc::GenericStub& stub, const std::string& method, absl::Time deadline,
                         const grpc::ByteBuffer& request, grpc::ByteBuffer& response) {
  grpc::ClientContext context;
  SetDeadline(context, deadline);
  grpc::CompletionQueue queue;
  grpc::Status status;
  void* tag = nullptr;
  bool ok = false;
  {
    const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    call->Finish(&response, &status, /*tag=*/nullptr);
    queue.Next(&tag, &ok);
  }
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
  AttemptOutcome outcome;
  outcome.status = ToAbslStatus(status);
  if (!outcome.status.ok()) outcome.hint = RetryHintOf(outcome.status, context);
  return outcome;
}

}  // namespace attnd::internal
