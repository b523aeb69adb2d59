#include "server/rpc/byte_ledger.h"

namespace attnd {

void ByteLedger::Lease::Reset() {
  if (ledger_ != nullptr) std::exchange(ledger_, nullptr)->GiveBack(bytes_);
}

std::optional<ByteLedger::Lease> ByteLedger::TryTake(std::int64_t bytes) {
  const std::lock_guard lock(mu_);
  if (bytes > capacity_bytes_ - used_bytes_) return std::nullopt;
  used_bytes_ += bytes;
  ++leases_;
  return Lease(this, bytes);
}

std::int64_t ByteLedger::used_bytes() const {
  const std::lock_guard lock(mu_);
  return used_bytes_;
}

void ByteLedger::WaitUntilUnused() {
  std::unique_lock lock(mu_);
  unused_.wait(lock, [this] { return leases_ == 0; });
}

void ByteLedger::GiveBack(std::int64_t bytes) {
  // Notified under the mutex: whoever waits may destroy the ledger as soon as it is unlocked.
  const std::lock_guard lock(mu_);
  used_bytes_ -= bytes;
  if (--leases_ == 0) unused_.notify_all();
}

}  // namespace attnd
