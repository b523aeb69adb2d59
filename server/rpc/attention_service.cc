#include "server/rpc/attention_service.h"

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"
#include "grpcpp/support/slice.h"
#include "kernels/status_macros.h"
#include "server/rpc/attend_call.h"
#include "server/rpc/attend_stream_call.h"
#include "server/rpc/call_watch.h"
#include "server/rpc/merge_call.h"
#include "server/rpc/server_info.h"
#include "server/rpc/wire_reader.h"

namespace attnd {
namespace {

// gRPC hands out the request as const, but made it for this call alone and does not look at it
// again. Emptying it gives back network buffers while the call goes on.
grpc::ByteBuffer* Owned(const grpc::ByteBuffer* request) {
  return const_cast<grpc::ByteBuffer*>(request);
}

// InvalidArgument for what is too large or not a protobuf message. Fields are not looked at: none
// has a meaning.
absl::Status CheckMessage(grpc::ByteBuffer* request, const RpcOptions& options) {
  RETURN_IF_ERROR(CheckMessageSize(static_cast<std::int64_t>(request->Length()), options));
  ASSIGN_OR_RETURN(const ReceivedMessage message, ReceivedMessage::Take(request));
  WireReader reader(message.bytes());
  WireField field;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(&field));
    if (!more) return absl::OkStatus();
  }
}

grpc::ByteBuffer Encode(const google::protobuf::MessageLite& message) {
  const grpc::Slice slice(message.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

AttentionService::AttentionService(Engine* engine, const RpcOptions& options, Metrics* metrics)
    : state_(engine, options, metrics) {
  if (metrics == nullptr) return;
  metrics->SetRpcSource([this] {
    return RpcReadings{.waiting_request_bytes = waiting_bytes(),
                       .sending_result_bytes = sending_bytes()};
  });
}

AttentionService::~AttentionService() {
  state_.sending.WaitUntilUnused();
  if (state_.metrics != nullptr) state_.metrics->SetRpcSource(nullptr);
}

grpc::ServerUnaryReactor* AttentionService::Attend(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request,
                                                   grpc::ByteBuffer* response) {
  auto* const call = new AttendCall(&state_, context, Owned(request), response);
  call->Start();
  return call;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* AttentionService::AttendStream(
    grpc::CallbackServerContext* context) {
  return AttendStreamCall::Start(&state_, context);
}

grpc::ServerUnaryReactor* AttentionService::Merge(grpc::CallbackServerContext* context,
                                                  const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  auto* const call = new MergeCall(&state_, context, Owned(request), response);
  call->Start();
  return call;
}

grpc::ServerUnaryReactor* AttentionService::GetServerInfo(grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request,
                                                          grpc::ByteBuffer* response) {
  CallWatch watch(Method::kGetServerInfo, context, state_.metrics);
  watch.CountBytes(Direction::kIn, static_cast<std::int64_t>(request->Length()));
  const absl::Status status = watch.Refused(CheckMessage(Owned(request), state_.options));
  if (status.ok()) {
    *response = Encode(MakeServerInfo(state_.engine->device().info(), state_.options));
    watch.CountBytes(Direction::kOut, static_cast<std::int64_t>(response->Length()));
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(watch.Finish(status));
  return reactor;
}

}  // namespace attnd
