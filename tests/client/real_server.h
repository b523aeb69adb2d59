// The whole server but its daemon, on the CPU, in the test's own process.
#pragma once

#include <memory>
#include <string>

#include "server/device/device.h"
#include "server/engine/engine.h"
#include "tests/testing/in_process_server.h"

namespace attnd::testing {

class RealServer {
 public:
  explicit RealServer(const RpcOptions& options = {})
      : device_(*CreateCpuDevice({.num_threads = 2})),
        engine_(*CreateEngine({}, *device_, /*metrics=*/nullptr)),
        server_(engine_.get(), options) {}

  const std::string& target() const { return server_.address(); }
  Engine& engine() { return *engine_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Engine> engine_;
  InProcessServer server_;
};

}  // namespace attnd::testing
