#include "server/rpc/send_timer.h"

#include "server/telemetry/log.h"

namespace attnd {

SendTimer::~SendTimer() {
  if (timer_ == nullptr) return;
  timer_->Stop();
  const std::lock_guard lock(call_->mu);
  call_->context = nullptr;
}

void SendTimer::Start(Method method, grpc::CallbackServerContext* context, std::int64_t bytes,
                      const RpcOptions& options) {
  call_ = std::make_shared<Call>();
  {
    const std::lock_guard lock(call_->mu);
    call_->context = context;
  }
  const absl::Duration limit = TransferTime(bytes, options);
  timer_ = IdleTimer::Start(limit, [call = call_, method, bytes, limit] {
    const std::lock_guard lock(call->mu);
    if (call->context == nullptr) return;
    Log(spdlog::level::warn, "result not read in time, call cancelled",
        {{"method", MethodName(method)},
         {"bytes", bytes},
         {"time_allowed", absl::FormatDuration(limit)},
         {"peer", call->context->peer()}});
    call->context->TryCancel();
  });
}

}  // namespace attnd
