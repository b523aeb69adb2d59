// What every call has whatever its method: a beginning, a deadline, a caller that may give up, and
// an end that is counted.
#pragma once

#include <atomic>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/status.h"
#include "server/engine/engine.h"
#include "server/telemetry/metrics.h"

namespace attnd {

// Lives at most as long as `context`. Thread-safe but for Finish.
class CallWatch {
 public:
  // `metrics` may be null.
  CallWatch(Method method, grpc::CallbackServerContext* context, Metrics* metrics);

  // What the engine needs to stop in time. May outlive the call.
  CallControl control() const;
  // The reactor's OnCancel.
  void Cancel() { cancelled_->store(true, std::memory_order_relaxed); }
  // OK, Cancelled or DeadlineExceeded.
  absl::Status Check() const { return control().Check(); }
  // Since the call began.
  double seconds() const { return absl::ToDoubleSeconds(absl::Now() - start_); }

  void CountBytes(Direction direction, std::int64_t bytes) const;

  // Counts `status` as a refusal if the request was invalid, and returns it. For what this layer
  // finds wrong: the engine counts its own refusals, InvalidArgument among them.
  absl::Status Refused(absl::Status status) const;

  // Counts and logs the end of the call and returns what to finish it with. Called once.
  grpc::Status Finish(const absl::Status& status);

 private:
  void LogEnd(const absl::Status& status) const;

  const Method method_;
  grpc::CallbackServerContext* const context_;
  Metrics* const metrics_;
  const absl::Time start_ = absl::Now();
  absl::Time deadline_ = absl::InfiniteFuture();
  const std::shared_ptr<std::atomic<bool>> cancelled_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace attnd
