// The whole service on the CPU in the test's own process: device, engine and gRPC.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "server/device/device.h"
#include "server/engine/engine.h"
#include "server/rpc/rpc_options.h"
#include "server/telemetry/metrics.h"
#include "tests/testing/in_process_server.h"

namespace attnd::e2e {

// Members in the order in which they are made; destroyed in the other.
struct CpuService {
  static constexpr std::int64_t kPoolBytes = 64 << 20;  // of staging, and of the device

  CpuService() : CpuService(RpcOptions(), EngineOptions()) {}
  CpuService(const RpcOptions& options, const EngineOptions& engine_options)
      : device(*CreateCpuDevice({.device_memory_bytes = kPoolBytes,
                                 .staging_memory_bytes = kPoolBytes,
                                 .num_threads = 2})),
        engine(CreateEngine(engine_options, *device, &metrics)),
        server(engine.get(), options, &metrics) {}

  std::int64_t used_bytes() const {
    return device->staging_usage().used_bytes + device->device_usage().used_bytes;
  }
  // Waits until gRPC has let go of the last result, then tells what is still allocated.
  std::int64_t used_bytes_when_idle() const {
    EXPECT_TRUE(engine->WaitUntilIdle(absl::Now() + absl::Seconds(60)));
    return used_bytes();
  }

  Metrics metrics{BuildInfo{"test", "cpu", "cpu"}};
  std::unique_ptr<Device> device;
  std::unique_ptr<Engine> engine;
  testing::InProcessServer server;
};

}  // namespace attnd::e2e
