// One Merge call: partial results in, their combination out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "kernels/merge.h"
#include "server/engine/engine.h"
#include "server/rpc/call_watch.h"
#include "server/rpc/rpc_state.h"
#include "server/rpc/send_timer.h"
#include "server/rpc/wire_bytes.h"

namespace attnd {

// Made on the heap; deletes itself when gRPC is done with the call.
class MergeCall final : public grpc::ServerUnaryReactor {
 public:
  MergeCall(RpcState* state, grpc::CallbackServerContext* context, grpc::ByteBuffer* request,
            grpc::ByteBuffer* response);

  // Checks and copies the request on this thread and asks for admission; merges on another.
  void Start();

 private:
  void OnCancel() override { watch_.Cancel(); }
  void OnDone() override { delete this; }

  absl::Status ReadRequest();
  void CopyParts(const WireBytesView& out, const WireBytesView& lse);
  void AllocateResult();
  void OnAdmitted(absl::StatusOr<std::unique_ptr<MergeJob>> job);
  absl::Status Merge(MergeJob& job);
  void WriteResponse(const v1::Timings& timings);
  void End(const absl::Status& status);

  RpcState* const state_;
  grpc::CallbackServerContext* const context_;
  grpc::ByteBuffer* const request_;
  grpc::ByteBuffer* const response_;
  CallWatch watch_;

  ByteLedger::Lease waiting_;  // until the end: the result, too, lies in no pool
  MergeParams params_;
  std::unique_ptr<std::byte[]> parts_;  // the parts' out, then their lse
  // lse, then out: lse is made of floats, and out may end at an odd multiple of two bytes.
  std::shared_ptr<std::byte[]> result_;
  double copy_seconds_ = 0;
  absl::Time admitted_;
  std::int64_t lse_bytes_ = 0;
  std::int64_t out_bytes_ = 0;
  SendTimer send_timer_;
};

}  // namespace attnd
