// The length, causal and window rule, once, for host and device. Boolean masks come on top of it.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace attnd {

struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;  // one past the last key; begin == end: the row attends to nothing
};

// The keys that query row `row` of a sequence may see. Rows are aligned to the bottom-right corner:
// the row's own position among the keys is row + seqlen_k - seqlen_q. Window sizes of -1 are open;
// `causal` closes the right side.
ATTND_HOST_DEVICE KeyRange VisibleKeys(std::int64_t row, std::int64_t seqlen_q,
                                       std::int64_t seqlen_k, bool causal, std::int64_t window_left,
                                       std::int64_t window_right) {
  const std::int64_t position = row + seqlen_k - seqlen_q;
  if (causal) window_right = 0;
  // Windows are compared with what is left of the row, never added to it first: a window of
  // INT64_MAX must not overflow.
  std::int64_t begin = 0;
  if (window_left >= 0 && window_left < position) begin = position - window_left;
  std::int64_t end = seqlen_k;
  if (window_right >= 0 && window_right < seqlen_k - 1 - position)
    end = position + window_right + 1;
  if (end < 0) end = 0;
  if (begin > end) begin = end;
  return {begin, end};
}

}  // namespace attnd
