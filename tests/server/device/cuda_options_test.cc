// What a CUDA device says to options that do not suit it.
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/device/device.h"

namespace attnd {
namespace {

using ::testing::ContainsRegex;

TEST(CudaOptionsTest, ADeviceThatIsNotThereIsRefusedByTheNameOfItsOption) {
  const absl::Status refused = CreateCudaDevice({.ordinal = 1023}).status();
  if (refused.code() == absl::StatusCode::kFailedPrecondition) GTEST_SKIP() << refused.message();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              ContainsRegex("^device_ordinal: got 1023; accepted here: 0 to [0-9]+"));
}

}  // namespace
}  // namespace attnd
