// Counts bytes that gRPC holds on this server's behalf, outside its pools or beyond the life of a
// call.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"

namespace attnd {

// Thread-safe. Must outlive its leases.
class ByteLedger {
 public:
  // Gives its bytes back when destroyed. Move-only, empty after a move.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { *this = std::move(other); }
    Lease& operator=(Lease&& other) noexcept {
      Reset();
      ledger_ = std::exchange(other.ledger_, nullptr);
      bytes_ = std::exchange(other.bytes_, 0);
      return *this;
    }
    ~Lease() { Reset(); }
    void Reset();

   private:
    friend class ByteLedger;
    Lease(ByteLedger* ledger, std::int64_t bytes) : ledger_(ledger), bytes_(bytes) {}

    ByteLedger* ledger_ = nullptr;
    std::int64_t bytes_ = 0;
  };

  explicit ByteLedger(std::int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}
  ByteLedger(const ByteLedger&) = delete;
  ByteLedger& operator=(const ByteLedger&) = delete;

  // Nothing if the capacity would be exceeded.
  std::optional<Lease> TryTake(std::int64_t bytes);
  std::int64_t used_bytes() const;
  // Returns when no lease is left.
  void WaitUntilUnused();

 private:
  void GiveBack(std::int64_t bytes);

  const std::int64_t capacity_bytes_;
  mutable std::mutex mu_;
  std::condition_variable unused_;
  std::int64_t used_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  std::int64_t leases_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace attnd
