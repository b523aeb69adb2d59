#include "server/listen_check.h"

#include <sys/resource.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;

// While it lives the process can open no further file.
class NoMoreFiles {
 public:
  NoMoreFiles() {
    getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit none = {.rlim_cur = 0, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoMoreFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

TEST(ListenCheckTest, ASocketThatCannotBeMadeIsReportedInTheSystemsWords) {
  absl::Status status;
  {
    const NoMoreFiles no_more_files;
    status = CheckTcpPortIsFree("127.0.0.1", 0);
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("127.0.0.1:0: Too many open files"));
}

TEST(ListenCheckTest, AFreePortIsFree) { EXPECT_TRUE(CheckTcpPortIsFree("127.0.0.1", 0).ok()); }

}  // namespace
}  // namespace attnd
