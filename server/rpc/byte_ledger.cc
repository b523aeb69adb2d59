#include "server/rpc/byte_ledger.h"

namespace attnd {

void ByteLedger::Lease::Reset() {
  if (ledger_ != nullptr) std::exchange(ledger_, nullptr)->GiveBack(bytes_);
}

std::optional<ByteLedger::Lease> ByteLedger::TryTake(std::int64_t bytes) {
  absl::MutexLock lock(&mu_);
  if (bytes > capacity_bytes_ - used_bytes_) return std::nullopt;
  used_bytes_ += bytes;
  ++leases_;
  return Lease(this, bytes);
}

std::int64_t ByteLedger::used_bytes() const {
  absl::MutexLock lock(&mu_);
  return used_bytes_;
}

void ByteLedger::WaitUntilUnused() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(
      +[](std::int64_t* leases) { return *leases == 0; }, &leases_));
}

void ByteLedger::GiveBack(std::int64_t bytes) {
  absl::MutexLock lock(&mu_);
  used_bytes_ -= bytes;
  --leases_;
}

}  // namespace attnd
