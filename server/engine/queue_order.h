// The order in which those who wait are served.
#pragma once

#include <cstdint>

#include "absl/time/time.h"

namespace attnd {

// In order of arrival, where every level of priority counts as having arrived kHeadStart earlier: a
// higher priority goes first among those who arrived together, and nobody is overtaken for ever.
class QueueOrder {
 public:
  static constexpr absl::Duration kHeadStart = absl::Seconds(1);

  // `arrival` counts those who arrived before and decides between equals.
  QueueOrder(int priority, absl::Time arrived, std::uint64_t arrival)
      : start_(arrived - priority * kHeadStart), arrival_(arrival) {}

  friend bool operator<(const QueueOrder& a, const QueueOrder& b) {
    return a.start_ != b.start_ ? a.start_ < b.start_ : a.arrival_ < b.arrival_;
  }

 private:
  absl::Time start_;
  std::uint64_t arrival_;
};

}  // namespace attnd
