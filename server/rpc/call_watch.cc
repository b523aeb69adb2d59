#include "server/rpc/call_watch.h"

#include <chrono>
#include <string>

#include "server/rpc/grpc_status.h"
#include "server/telemetry/log.h"

namespace attnd {

CallWatch::CallWatch(Method method, grpc::CallbackServerContext* context, Metrics* metrics)
    : method_(method), context_(context), metrics_(metrics) {
  const auto deadline = context->deadline();
  if (deadline != std::chrono::system_clock::time_point::max())
    deadline_ = absl::FromChrono(deadline);
}

CallControl CallWatch::control() const {
  CallControl control;
  control.deadline = deadline_;
  control.cancelled = [cancelled = cancelled_] {
    return cancelled->load(std::memory_order_relaxed);
  };
  return control;
}

void CallWatch::CountBytes(Direction direction, std::int64_t bytes) const {
  if (metrics_ != nullptr) metrics_->TransportBytes(direction, Transport::kGrpc, bytes);
}

absl::Status CallWatch::Refused(absl::Status status) const {
  if (metrics_ != nullptr && absl::IsInvalidArgument(status))
    metrics_->RequestRejected(RejectReason::kInvalid);
  return status;
}

void CallWatch::LogEnd(const absl::Status& status) const {
  if (!ShouldLog(spdlog::level::debug)) return;
  Log(spdlog::level::debug, "request",
      {{"method", MethodName(method_)},
       {"code", absl::StatusCodeToString(status.code())},
       {"seconds", seconds()},
       {"peer", context_->peer()},
       {"error", std::string(status.message())}});
}

grpc::Status CallWatch::Finish(const absl::Status& status) {
  if (metrics_ != nullptr) metrics_->RequestFinished(method_, status.code(), seconds());
  LogEnd(status);
  return FinishStatus(status, context_);
}

}  // namespace attnd
