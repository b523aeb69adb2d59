#include "server/rpc/rpc_state.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/engine/retry_info.h"
#include "server/rpc/error_details.h"

namespace attnd {
namespace {

constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<ByteLedger::Lease> TakeWaiting(RpcState& state, std::int64_t bytes) {
  // No wait would help, so that no delay is told.
  if (bytes > state.options.max_waiting_request_bytes) {
    return FieldError(
        "message",
        absl::StrCat("takes ", bytes, " bytes while it waits for memory, accepted: at most ",
                     state.options.max_waiting_request_bytes, " (max_waiting_request_bytes)"));
  }
  std::optional<ByteLedger::Lease> lease = state.waiting.TryTake(bytes);
  if (lease.has_value()) return *std::move(lease);
  if (state.metrics != nullptr) state.metrics->RequestRejected(RejectReason::kWaitingBytes);
  return WithRetryDelay(
      absl::ResourceExhaustedError(
          absl::StrCat("requests of ", state.waiting.used_bytes(),
                       " bytes wait for memory already, accepted: at most ",
                       state.options.max_waiting_request_bytes, " (max_waiting_request_bytes)")),
      kRetryDelay);
}

}  // namespace attnd
