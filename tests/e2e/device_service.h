// The whole service over the device under test, in the test's own process: device, engine and gRPC.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "server/device/device.h"
#include "server/engine/engine.h"
#include "server/rpc/rpc_options.h"
#include "server/telemetry/metrics.h"
#include "tests/testing/device_under_test.h"
#include "tests/testing/failing_device.h"
#include "tests/testing/in_process_server.h"

namespace attnd::e2e {

// Members in the order in which they are made; destroyed in the other.
struct DeviceService {
  DeviceService(std::unique_ptr<Device> under_test, bool unified_memory, const RpcOptions& options,
                const EngineOptions& engine_options)
      : device(std::move(under_test)) {
    device.set_unified_memory(unified_memory);
    engine = *CreateEngine(engine_options, device, &metrics);
    server.emplace(engine.get(), options, &metrics);
  }

  v1::AttentionService::Stub& stub() { return server->stub(); }

  std::int64_t used_bytes() const {
    return device.staging_usage().used_bytes + device.device_usage().used_bytes;
  }
  // Waits until gRPC has let go of the last result, then tells what is still allocated.
  std::int64_t used_bytes_when_idle() const {
    EXPECT_TRUE(engine->WaitUntilIdle(absl::Now() + absl::Seconds(60)));
    return used_bytes();
  }

  Metrics metrics{BuildInfo{"test", "test", "test"}};
  FailingDevice device;
  std::unique_ptr<Engine> engine;
  std::optional<testing::InProcessServer> server;
};

inline constexpr std::int64_t kStagingBytes = 64 << 20;
// Where the device has memory of its own, what fits into staging fits there too, beside workspace.
inline constexpr std::int64_t kDeviceBytes = 2 * kStagingBytes;

// The device under test; null where there is none, and then the test is skipped.
inline std::unique_ptr<Device> DeviceOrSkip(std::int64_t device_memory_bytes = kDeviceBytes,
                                            std::int64_t staging_memory_bytes = kStagingBytes) {
  absl::StatusOr<std::unique_ptr<Device>> device =
      MakeDeviceUnderTest(device_memory_bytes, staging_memory_bytes);
  if (device.ok()) return *std::move(device);
  // In a function of its own, for either macro returns.
  [&] {
    if (absl::IsFailedPrecondition(device.status())) GTEST_SKIP() << device.status().message();
    FAIL() << device.status();
  }();
  return nullptr;
}

// What is parameterised by the kind of the device's memory: DeviceInfo::unified_memory.
inline std::string MemoryName(bool unified) { return unified ? "Unified" : "Discrete"; }

// A test of one service.
class DeviceServiceTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override { device_ = DeviceOrSkip(); }

  // Once a test.
  DeviceService& Serve(const RpcOptions& options = {}, const EngineOptions& engine_options = {}) {
    return service_.emplace(std::move(device_), GetParam(), options, engine_options);
  }
  void StopServing() { service_.reset(); }

 private:
  std::unique_ptr<Device> device_;
  std::optional<DeviceService> service_;
};

}  // namespace attnd::e2e
