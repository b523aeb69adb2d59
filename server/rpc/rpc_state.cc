#include "server/rpc/rpc_state.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/error_details.h"

namespace attnd {
namespace {

constexpr absl::Duration kRetryDelay = absl::Milliseconds(100);

}  // namespace

absl::StatusOr<ByteLedger::Lease> TakeWaiting(ByteLedger& waiting, std::int64_t bytes) {
  std::optional<ByteLedger::Lease> lease = waiting.TryTake(bytes);
  if (lease.has_value()) return *std::move(lease);
  absl::Status status = absl::ResourceExhaustedError(
      absl::StrCat("requests of ", waiting.used_bytes(), " bytes wait for memory already"));
  SetRetryDelay(status, kRetryDelay);
  return status;
}

}  // namespace attnd
