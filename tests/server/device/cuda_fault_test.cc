// What becomes of a CUDA device whose context is lost. A program of its own: nothing else works in
// the process afterwards.
#include <memory>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_status.h"
#include "server/device/device.h"
#include "tests/server/device/illegal_store.h"
#include "tests/testing/device_under_test.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;

TEST(CudaFaultTest, AnIllegalAddressFailsTheWorkAndTheDeviceForGood) {
  absl::StatusOr<std::unique_ptr<Device>> device = MakeDeviceUnderTest(1 << 20, 1 << 20);
  if (device.status().code() == absl::StatusCode::kFailedPrecondition)
    GTEST_SKIP() << device.status().message();
  ASSERT_TRUE(device.ok()) << device.status();
  const auto go = [] { return absl::OkStatus(); };

  DeviceWork fault;
  fault.compute = [](const ExecutionContext& context) {
    return cuda::StatusFromCuda(LaunchIllegalStore(static_cast<cudaStream_t>(context.stream)),
                                "IllegalStore", __FILE__, __LINE__);
  };
  const absl::Status failed = (*device)->Run(fault, go).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(failed.message(), HasSubstr("cudaErrorIllegalAddress"));
  EXPECT_THAT((*device)->health().message(), HasSubstr("cudaErrorIllegalAddress"));

  bool computed = false;
  DeviceWork next;
  next.compute = [&computed](const ExecutionContext&) {
    computed = true;
    return absl::OkStatus();
  };
  EXPECT_EQ((*device)->Run(next, go).status(), (*device)->health());
  EXPECT_FALSE(computed);
}

}  // namespace
}  // namespace attnd
