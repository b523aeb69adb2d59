// The order in which those who wait are served.
#pragma once

#include <cstdint>

namespace attnd {

// Higher priority first; within one priority, in order of arrival.
struct QueueOrder {
  int priority = 0;
  std::uint64_t arrival = 0;

  friend bool operator<(const QueueOrder& a, const QueueOrder& b) {
    return a.priority != b.priority ? a.priority > b.priority : a.arrival < b.arrival;
  }
};

}  // namespace attnd
