#include "server/thread_check.h"

#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/device/cpu/thread_pool.h"

namespace attnd {
namespace {

// Of gRPC, of HTTP, and of the engine beside its workers.
constexpr int kOtherThreads = 16;

int ComputingThreads(const ServerOptions& options) {
  const bool heeds_setting = options.backend != BackendChoice::kCuda;
  return heeds_setting && options.cpu.num_threads > 0 ? options.cpu.num_threads
                                                      : UsableProcessors();
}

// Up to `wanted` threads that exist at the same time, and why there are no more.
struct Started {
  int count = 0;
  std::error_code error;
};

Started StartAndEnd(int wanted) {
  Started started;
  absl::Notification end;
  std::vector<std::thread> threads;
  threads.reserve(wanted);
  try {
    while (started.count < wanted) {
      threads.emplace_back([&end] { end.WaitForNotification(); });
      ++started.count;
    }
  } catch (const std::system_error& error) {
    started.error = error.code();
  }
  end.Notify();
  for (std::thread& thread : threads) thread.join();
  return started;
}

}  // namespace

absl::Status CheckThreadsCanStart(const ServerOptions& options) {
  const int computing = ComputingThreads(options);
  const int wanted = computing + options.engine.num_workers + kOtherThreads;
  const Started started = StartAndEnd(wanted);
  if (started.count == wanted) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "threads and streams: got ", computing, " and ", options.engine.num_workers, ", which with ",
      kOtherThreads, " others are ", wanted, " threads; accepted here: at most ", started.count,
      " (", started.error.message(), ")"));
}

}  // namespace attnd
