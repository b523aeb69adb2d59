#include "server/rpc/attention_service.h"

#include "server/rpc/attend_call.h"
#include "server/rpc/attend_stream_call.h"
#include "server/rpc/call_watch.h"
#include "server/rpc/merge_call.h"
#include "server/rpc/server_info.h"

namespace attnd {
namespace {

// gRPC hands out the request as const, but made it for this call alone and does not look at it
// again. Emptying it gives back network buffers while the call goes on.
grpc::ByteBuffer* Owned(const grpc::ByteBuffer* request) {
  return const_cast<grpc::ByteBuffer*>(request);
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

grpc::ServerUnaryReactor* AttentionService::GetServerInfo(
    grpc::CallbackServerContext* context, const v1::GetServerInfoRequest* /*request*/,
    v1::GetServerInfoResponse* response) {
  CallWatch watch(Method::kGetServerInfo, context, state_.metrics);
  *response = MakeServerInfo(state_.engine->device().info(), state_.options);
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(watch.Finish(absl::OkStatus()));
  return reactor;
}

}  // namespace attnd
