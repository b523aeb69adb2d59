// Where exceptions of the standard library end: threads that serve others do not survive one.
#pragma once

#include "absl/status/status.h"

namespace attnd {

// What the exception that is being handled means to a caller: std::bad_alloc is ResourceExhausted
// with a retry delay, anything else Internal with its words. To be called in a catch block.
absl::Status StatusOfException();

// work(), which returns an absl::Status or absl::StatusOr, or the status of what it throws.
template <typename Work>
auto WithoutExceptions(Work work) noexcept -> decltype(work()) {
  try {
    return work();
  } catch (...) {
    return StatusOfException();
  }
}

}  // namespace attnd
