// Ends a unary call whose client does not take its result.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/base/thread_annotations.h"
#include "grpcpp/server_context.h"
#include "server/rpc/idle_timer.h"
#include "server/rpc/rpc_options.h"
#include "server/telemetry/metrics.h"

namespace attnd {

// A member of the call: destroyed when gRPC has sent the result, or given it up.
class SendTimer {
 public:
  SendTimer() = default;
  SendTimer(const SendTimer&) = delete;
  SendTimer& operator=(const SendTimer&) = delete;
  // Does not touch the context afterwards.
  ~SendTimer();

  // The client has TransferTime(bytes, options) to take the result. Then the call is cancelled: a
  // status would wait behind the bytes that are not read. At most once, before the call is
  // finished.
  void Start(Method method, grpc::CallbackServerContext* context, std::int64_t bytes,
             const RpcOptions& options);

 private:
  // What the timer's thread may still look at while the call goes.
  struct Call {
    std::mutex mu;
    grpc::CallbackServerContext* context ABSL_GUARDED_BY(mu) = nullptr;  // null: over
  };

  std::shared_ptr<Call> call_;
  std::shared_ptr<IdleTimer> timer_;
};

}  // namespace attnd
