// One thread for calls that block, so that gRPC's own threads never do.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace attnd {

// Runs what it is given in order. Thread-safe. The caller bounds how much it adds.
class WorkQueue {
 public:
  WorkQueue();
  // Runs what is left, then stops.
  ~WorkQueue();

  void Add(std::function<void()> work);

 private:
  void Run();

  absl::Mutex mu_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;  // last, so that it starts when the rest is there
};

}  // namespace attnd
