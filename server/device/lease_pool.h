// A fixed set of things that are lent out one at a time and come back by themselves: streams, above
// all.
#pragma once

#include <cassert>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/status_macros.h"

namespace attnd {

// Thread-safe. Leases must be gone before the pool is destroyed.
template <typename T>
class LeasePool {
 public:
  static constexpr std::chrono::milliseconds kPollInterval{5};

  // Holds one item until it is destroyed. Move-only, empty after a move.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), item_(std::move(other.item_)) {}
    Lease& operator=(Lease&& other) noexcept {
      if (this != &other) {
        Reset();
        pool_ = std::exchange(other.pool_, nullptr);
        item_ = std::move(other.item_);
      }
      return *this;
    }
    ~Lease() { Reset(); }

    T& operator*() const { return *item_; }
    T* operator->() const { return item_.get(); }

   private:
    friend class LeasePool;
    Lease(LeasePool* pool, std::unique_ptr<T> item) : pool_(pool), item_(std::move(item)) {}

    void Reset() {
      if (pool_ != nullptr) std::exchange(pool_, nullptr)->Return(std::move(item_));
    }

    LeasePool* pool_ = nullptr;
    std::unique_ptr<T> item_;
  };

  explicit LeasePool(std::vector<std::unique_ptr<T>> items)
      : size_(items.size()), idle_(std::move(items)) {}
  ~LeasePool() { assert(idle_count() == size_); }
  LeasePool(const LeasePool&) = delete;
  LeasePool& operator=(const LeasePool&) = delete;

  // An idle item; waits for one if there is none, and asks `still_wanted` every kPollInterval
  // meanwhile: its error ends the wait. The item that came back last goes first, so that the least
  // number of them stays warm.
  absl::StatusOr<Lease> Acquire(absl::FunctionRef<absl::Status()> still_wanted) {
    std::unique_lock lock(mu_);
    while (!came_back_.wait_for(lock, kPollInterval, [this] { return !idle_.empty(); })) {
      lock.unlock();
      RETURN_IF_ERROR(still_wanted());
      lock.lock();
    }
    std::unique_ptr<T> item = std::move(idle_.back());
    idle_.pop_back();
    return Lease(this, std::move(item));
  }

  std::size_t idle_count() const {
    const std::lock_guard lock(mu_);
    return idle_.size();
  }

 private:
  void Return(std::unique_ptr<T> item) {
    {
      const std::lock_guard lock(mu_);
      idle_.push_back(std::move(item));
    }
    came_back_.notify_one();
  }

  const std::size_t size_;
  mutable std::mutex mu_;
  std::condition_variable came_back_;
  std::vector<std::unique_ptr<T>> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace attnd
