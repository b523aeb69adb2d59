// One unary Attend call, from its bytes to its reply.
#pragma once

#include <memory>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/attend_messages.h"
#include "server/rpc/call_watch.h"
#include "server/rpc/rpc_state.h"
#include "server/rpc/send_timer.h"
#include "server/rpc/wire_reader.h"

namespace attnd {

// Made on the heap; deletes itself when gRPC is done with the call. Each step runs on whatever
// thread the step before ended on, never two at once: Start -> OnAdmitted -> OnComputed -> End.
class AttendCall final : public grpc::ServerUnaryReactor {
 public:
  // `request` belongs to this call alone and is emptied as soon as its bytes are copied.
  AttendCall(RpcState* state, grpc::CallbackServerContext* context, grpc::ByteBuffer* request,
             grpc::ByteBuffer* response);

  void Start();

 private:
  void OnCancel() override { watch_.Cancel(); }
  void OnDone() override { delete this; }

  // Checks the request and asks for the memory that it needs.
  absl::StatusOr<AttentionPlan> ReadRequest();
  void OnAdmitted(absl::StatusOr<std::unique_ptr<AttentionJob>> job);
  // Moves the request's tensors to staging memory.
  void CopyAndSubmit(std::unique_ptr<AttentionJob> job);
  void OnComputed(absl::StatusOr<std::unique_ptr<AttentionJob>> job);
  void End(const absl::Status& status);

  RpcState* const state_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const request_;
  grpc::ByteBuffer* const response_;
  CallWatch watch_;
  const std::thread::id starting_thread_ = std::this_thread::get_id();

  ByteLedger::Lease waiting_;
  ReceivedMessage message_;
  AttendRequestView view_;
  double copy_seconds_ = 0;
  SendTimer send_timer_;
};

}  // namespace attnd
