// What a server does when it cannot start.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/server.h"
#include "tests/testing/thread_limit.h"

namespace attnd {
namespace {

// In a process that may start `allowed` threads; one computes, and one stream is served.
[[noreturn]] void CreateAndTell(int allowed) {
  alarm(20);  // gRPC may wait for ever for a thread
  testing::AllowThreads(allowed);
  ServerOptions options;
  options.grpc_port = 0;
  options.http_port = 0;
  options.engine.num_workers = 1;
  std::unique_ptr<Device> device = *CreateCpuDevice({.num_threads = 1});
  const absl::Status status = Server::Create(options, std::move(device)).status();
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(static_cast<int>(status.code()));
}

TEST(ServerStartDeathTest, AnyThreadThatTheSystemRefusesIsAnErrorThatNamesSettings) {
  if (!testing::kCanLimitThreads) GTEST_SKIP();
  const ::testing::ExitedWithCode refused(static_cast<int>(absl::StatusCode::kResourceExhausted));
  constexpr int kEngineThreads = 3;   // a worker, one that watches, one that admits
  constexpr int kServiceThreads = 6;  // four that copy, two that merge
  for (int allowed = 0; allowed < kEngineThreads; ++allowed) {
    EXPECT_EXIT(CreateAndTell(allowed), refused, "streams: got 1; accepted now: fewer");
  }
  for (int allowed = kEngineThreads; allowed < kEngineThreads + kServiceThreads; ++allowed) {
    EXPECT_EXIT(CreateAndTell(allowed), refused,
                "the system refuses a thread just now .*; fewer threads or streams leave room");
  }
  for (const int room : {0, 1, 15}) {
    EXPECT_EXIT(CreateAndTell(kEngineThreads + kServiceThreads + room), refused,
                absl::StrCat("the system starts only ", room, " threads more .*, gRPC needs"));
  }
}

}  // namespace
}  // namespace attnd
