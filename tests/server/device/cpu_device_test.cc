// What is the CPU device's own: its threads.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "server/device/cpu/thread_pool.h"
#include "server/device/device.h"
#include "tests/testing/thread_limit.h"

namespace attnd {
namespace {

// In a process that may start `allowed` threads.
[[noreturn]] void CreateAndTell(int allowed, int num_threads) {
  testing::AllowThreads(allowed);
  const absl::Status status =
      CreateCpuDevice(
          {.device_memory_bytes = 0, .staging_memory_bytes = 0, .num_threads = num_threads})
          .status();
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(static_cast<int>(status.code()));
}

::testing::ExitedWithCode EndsWith(absl::StatusCode code) {
  return ::testing::ExitedWithCode(static_cast<int>(code));
}

TEST(CpuDeviceDeathTest, ThreadsThatTheSystemRefusesAreNamedByTheirSetting) {
  if (!testing::kCanLimitThreads) GTEST_SKIP();
  EXPECT_EXIT(CreateAndTell(2, 4), EndsWith(absl::StatusCode::kResourceExhausted),
              "threads: got 4; accepted now: fewer, the system starts no more");
  EXPECT_EXIT(CreateAndTell(3, 4), EndsWith(absl::StatusCode::kOk), "");
}

TEST(CpuDeviceDeathTest, AnErrorTellsNoNumberOfThreadsThatNobodySet) {
  if (!testing::kCanLimitThreads) GTEST_SKIP();
  if (UsableProcessors() == 1) GTEST_SKIP() << "one processor needs no further thread";
  EXPECT_EXIT(CreateAndTell(0, 0), EndsWith(absl::StatusCode::kResourceExhausted),
              absl::StrCat("threads: left at 0, which means ", UsableProcessors(), " here; "));
}

}  // namespace
}  // namespace attnd
