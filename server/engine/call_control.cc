#include "absl/status/status.h"
#include "server/engine/engine.h"

namespace attnd {

absl::Status CallControl::Check(absl::Time now) const {
  if (cancelled && cancelled()) return absl::CancelledError("the caller cancelled the call");
  if (now >= deadline) return absl::DeadlineExceededError("the call's deadline has passed");
  return absl::OkStatus();
}

}  // namespace attnd
