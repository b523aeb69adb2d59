#include "client/cpp/lent_memory.h"

#include <grpcpp/completion_queue.h>

#include <chrono>

namespace attnd::internal {

LentMemory::~LentMemory() {
  if (slices_out_.load(std::memory_order_acquire) == 0) return;
  // An empty queue that is waited on still does gRPC's input and output, which is what gives the
  // slices back.
  grpc::CompletionQueue poller;
  void* tag = nullptr;
  bool ok = false;
  while (slices_out_.load(std::memory_order_acquire) != 0) {
    poller.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + std::chrono::milliseconds(1));
  }
  poller.Shutdown();
  while (poller.Next(&tag, &ok)) {
  }
}

grpc::Slice LentMemory::Lend(std::span<const std::byte> bytes) {
  slices_out_.fetch_add(1, std::memory_order_relaxed);
  auto give_back = [](void* counter) {
    static_cast<std::atomic<std::int64_t>*>(counter)->fetch_sub(1, std::memory_order_release);
  };
  // gRPC's signature lacks the const; slices are never written to.
  return grpc::Slice(const_cast<std::byte*>(bytes.data()), bytes.size(), give_back, &slices_out_);
}

}  // namespace attnd::internal
