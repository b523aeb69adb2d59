// One AttendStream call: a header, chunks of tensor bytes in any order, then the result and its
// chunks.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "server/rpc/attend_messages.h"
#include "server/rpc/call_watch.h"
#include "server/rpc/chunk_assembler.h"
#include "server/rpc/idle_timer.h"
#include "server/rpc/rpc_state.h"
#include "server/rpc/wire_reader.h"

namespace attnd {

// Never more than one message is read or written at a time, and none is read before the memory for
// all of them is reserved: HTTP/2 flow control is the back-pressure. Computation begins with the
// last byte that was missing; what a client sends after that is not read.
//
// gRPC, the engine and the idle timer call in from different threads. The mutex covers all but
// calls into the engine, which may call back before they return. The call owns itself until gRPC is
// done with it.
class AttendStreamCall final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>,
                               public std::enable_shared_from_this<AttendStreamCall> {
 public:
  // Begins to serve the call.
  static AttendStreamCall* Start(RpcState* state, grpc::CallbackServerContext* context);

 private:
  // What happens next. The client is waited for in kHeader, kChunks and kResults, the engine in
  // kAdmission and kComputation.
  enum class Phase { kHeader, kAdmission, kChunks, kComputation, kResults, kFinished };
  using JobOr = absl::StatusOr<std::unique_ptr<AttentionJob>>;
  // What is given back when the call ends.
  struct Holdings {
    std::unique_ptr<AttentionJob> job;
    std::shared_ptr<const AttentionJob> result;
  };

  AttendStreamCall(RpcState* state, grpc::CallbackServerContext* context);

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override { watch_.Cancel(); }
  void OnDone() override;
  void OnIdle();
  // From now on the client has `bytes` to send, or to take, no slower than the options say.
  void ExpectBytes(std::int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status WhyGivenUp() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  void HandleHeader(bool ok);
  // What the last read brought.
  absl::StatusOr<ReceivedMessage> TakeMessage();
  absl::StatusOr<AttentionPlan> ReadHeader();
  void OnAdmitted(JobOr job);
  void HandleChunk(bool ok);
  absl::Status ReadChunk() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status WhyNothingCame(absl::Status half_closed) const;
  absl::Status WhyNotTaken();
  void Submit();
  void OnComputed(JobOr job);
  // False if all has been written.
  bool WriteNextChunk();
  // Gives everything back and finishes the call, unless it is finished already.
  void End(const absl::Status& status);
  // Marks the call as finished and hands out what it holds; nothing if it is finished already.
  std::optional<Holdings> TakeHoldings() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Not under the mutex: giving memory back may admit another call on this thread.
  void FinishWith(Holdings holdings, const absl::Status& status);

  RpcState* const state_;
  grpc::CallbackServerContext* const context_;
  CallWatch watch_;
  std::shared_ptr<AttendStreamCall> self_;  // until OnDone
  std::shared_ptr<IdleTimer> idle_timer_;
  bool header_read_ = false;  // OnReadDone's alone

  std::mutex mu_;
  Phase phase_ ABSL_GUARDED_BY(mu_) = Phase::kHeader;
  absl::Time transfer_limit_ ABSL_GUARDED_BY(mu_) = absl::InfiniteFuture();  // of ExpectBytes
  std::int64_t expected_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  grpc::ByteBuffer incoming_;                               // gRPC's while a read is under way
  grpc::ByteBuffer outgoing_;                               // gRPC's while a write is under way
  std::unique_ptr<AttentionJob> job_ ABSL_GUARDED_BY(mu_);  // while chunks arrive
  std::optional<ChunkAssembler> assembler_ ABSL_GUARDED_BY(mu_);
  double copy_seconds_ ABSL_GUARDED_BY(mu_) = 0;
  std::shared_ptr<const AttentionJob> result_ ABSL_GUARDED_BY(mu_);  // while chunks leave
  absl::Status given_up_ ABSL_GUARDED_BY(mu_);  // why, if results are no longer waited for
  int next_output_ ABSL_GUARDED_BY(mu_) = 0;
  std::int64_t next_offset_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace attnd
