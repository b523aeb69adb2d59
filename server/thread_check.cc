#include "server/thread_check.h"

#include <unistd.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"

namespace attnd {
namespace {

// gRPC starts 9 threads on two processors. Some of its pools grow with the processors, up to bounds
// of their own, and all of them with load.
int GrpcThreads() {
  return 16 + static_cast<int>(std::min(48L, 2 * sysconf(_SC_NPROCESSORS_CONF)));
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

absl::Status CheckRoomForGrpcThreads() {
  const int wanted = GrpcThreads();
  const Started started = StartAndEnd(wanted);
  if (started.count == wanted) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the system starts only ", started.count, " threads more (", started.error.message(),
      "), gRPC needs room for ", wanted, "; fewer threads or streams leave more"));
}

}  // namespace attnd
