// Threads for what would hold up a thread that is not ours to hold up: gRPC's, or the one by which
// the engine admits.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"

namespace attnd {

// Starts what it is given in order. Thread-safe. The caller bounds how much it adds.
class WorkQueue {
 public:
  // Throws std::system_error, with none left running, where the system refuses a thread.
  explicit WorkQueue(int num_threads);
  // Runs what is left, then stops.
  ~WorkQueue();

  void Add(std::function<void()> work);

 private:
  WorkQueue() = default;
  void Run();

  std::mutex mu_;
  std::condition_variable news_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace attnd
