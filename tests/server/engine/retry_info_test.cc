#include "server/engine/retry_info.h"

#include <optional>
#include <string>

#include "absl/strings/cord.h"
#include "gtest/gtest.h"

namespace attnd {
namespace {

absl::Status Exhausted() { return absl::ResourceExhaustedError("queue full"); }

TEST(RetryInfoTest, TheDelayComesBack) {
  for (const absl::Duration delay : {absl::ZeroDuration(), absl::Milliseconds(20), absl::Seconds(3),
                                     absl::Seconds(130) + absl::Nanoseconds(999'999'999)}) {
    EXPECT_EQ(RetryDelayOf(WithRetryDelay(Exhausted(), delay)), delay);
  }
}

TEST(RetryInfoTest, CodeAndMessageStay) {
  const absl::Status status = WithRetryDelay(Exhausted(), absl::Seconds(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "queue full");
}

// retry_delay { seconds: 1 nanos: 500000000 }, as protoc --encode writes it.
TEST(RetryInfoTest, TheBytesAreThoseOfGoogleRpcRetryInfo) {
  const absl::Status status = WithRetryDelay(Exhausted(), absl::Milliseconds(1500));
  EXPECT_EQ(status.GetPayload("type.googleapis.com/google.rpc.RetryInfo"),
            absl::Cord(std::string("\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01", 10)));
}

TEST(RetryInfoTest, AnAbsentZeroFieldIsRead) {
  absl::Status status = Exhausted();
  status.SetPayload("type.googleapis.com/google.rpc.RetryInfo",
                    absl::Cord(std::string("\x0a\x02\x08\x05", 4)));
  EXPECT_EQ(RetryDelayOf(status), absl::Seconds(5));
}

TEST(RetryInfoTest, NothingIsReadFromAStatusWithoutOrWithABrokenPayload) {
  EXPECT_EQ(RetryDelayOf(Exhausted()), std::nullopt);
  for (const char* broken : {"\x0a", "\x0a\x05\x08", "\x0a\x02\x08\xff"}) {
    absl::Status status = Exhausted();
    status.SetPayload("type.googleapis.com/google.rpc.RetryInfo", absl::Cord(broken));
    EXPECT_EQ(RetryDelayOf(status), std::nullopt);
  }
}

}  // namespace
}  // namespace attnd
