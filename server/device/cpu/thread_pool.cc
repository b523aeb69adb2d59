#include "server/device/cpu/thread_pool.h"

#include <algorithm>
#include <cassert>

namespace attnd {

// Delegates, so that an exception on the way calls the destructor, which ends the threads started.
ThreadPool::ThreadPool(int num_threads) : ThreadPool() {
  assert(num_threads >= 1);
  workers_.reserve(num_threads - 1);
  for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this] { WorkerMain(); });
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mu_);
    assert(loops_.empty());
    stopping_ = true;
  }
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Loop::Work() {
  for (;;) {
    // Relaxed: the lock under which helpers join and leave orders what tasks read and write.
    const std::int64_t i = next_task.fetch_add(1, std::memory_order_relaxed);
    if (i >= num_tasks) return;
    task(i);
  }
}

void ThreadPool::Run(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> task) {
  if (num_tasks <= 1 || workers_.empty()) {
    for (std::int64_t i = 0; i < num_tasks; ++i) task(i);
    return;
  }
  Loop loop(num_tasks, task);
  {
    const std::lock_guard lock(mu_);
    loops_.push_back(&loop);
    WakeHelpers(loop);
  }
  loop.Work();
  {
    std::unique_lock lock(mu_);
    Unlist(&loop);
    loop.helpers_gone.wait(lock, [&loop] { return loop.helpers == 0; });
  }
  loop.task.Rethrow();
}

void ThreadPool::WorkerMain() {
  std::unique_lock lock(mu_);
  while (!stopping_) {
    Loop* loop = FindLoop();
    if (loop == nullptr) {
      ++sleeping_workers_;
      work_.wait(lock);
      --sleeping_workers_;
      continue;
    }
    ++loop->helpers;
    WakeHelpers(*loop);
    lock.unlock();
    loop->Work();
    lock.lock();
    // Under the lock: the loop is gone as soon as its caller sees that nobody helps.
    if (--loop->helpers == 0) loop->helpers_gone.notify_one();
  }
}

void ThreadPool::WakeHelpers(const Loop& loop) {
  // One of the tasks left is for the thread that asks.
  const std::int64_t wanted = loop.num_tasks - loop.next_task.load(std::memory_order_relaxed) - 1;
  const std::int64_t wakes = std::min<std::int64_t>({wanted, sleeping_workers_, 2});
  for (std::int64_t i = 0; i < wakes; ++i) work_.notify_one();
}

ThreadPool::Loop* ThreadPool::FindLoop() {
  // Oldest first: the loop that has waited longest is the one whose caller is nearest to being
  // done.
  while (!loops_.empty() && loops_.front()->AllStarted()) loops_.erase(loops_.begin());
  const auto found =
      std::find_if(loops_.begin(), loops_.end(), [](const Loop* l) { return !l->AllStarted(); });
  return found == loops_.end() ? nullptr : *found;
}

void ThreadPool::Unlist(const Loop* loop) {
  const auto listed = std::find(loops_.begin(), loops_.end(), loop);
  if (listed != loops_.end()) loops_.erase(listed);
}

}  // namespace attnd
