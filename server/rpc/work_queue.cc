#include "server/rpc/work_queue.h"

#include <utility>

namespace attnd {

// Delegates, so that an exception on the way calls the destructor, which ends the threads started.
WorkQueue::WorkQueue(int num_threads) : WorkQueue() {
  for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mu_);
    stopping_ = true;
  }
  news_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkQueue::Add(std::function<void()> work) {
  {
    const std::lock_guard lock(mu_);
    waiting_.push_back(std::move(work));
  }
  news_.notify_one();
}

void WorkQueue::Run() {
  std::unique_lock lock(mu_);
  while (true) {
    news_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace attnd
