// A task of a ParallelFor, fit for threads that no exception may leave.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "absl/functional/function_ref.h"

namespace attnd {

// Keeps the first exception that the task throws; tasks after it do nothing. Thread-safe.
class GuardedTask {
 public:
  explicit GuardedTask(absl::FunctionRef<void(std::int64_t)> task) : task_(task) {}

  void operator()(std::int64_t i) noexcept {
    if (failed_.load(std::memory_order_relaxed)) return;
    try {
      task_(i);
    } catch (...) {
      if (!failed_.exchange(true)) exception_ = std::current_exception();
    }
  }

  // Throws what was kept, if anything. For the thread that has waited until every call is over.
  void Rethrow() const {
    if (exception_ != nullptr) std::rethrow_exception(exception_);
  }

 private:
  const absl::FunctionRef<void(std::int64_t)> task_;
  std::atomic<bool> failed_ = false;
  std::exception_ptr exception_;
};

}  // namespace attnd
