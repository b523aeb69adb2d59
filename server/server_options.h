// How a server is set up, in the types that its parts take. Meaning, unit, default and trade of
// every setting stand once, in proto/attnd/config/v1/server_config.proto, under the same name.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attnd/config/v1/server_config.pb.h"
#include "server/device/device.h"
#include "server/engine/engine.h"
#include "server/rpc/rpc_options.h"
#include "server/telemetry/log.h"

namespace attnd {

enum class BackendChoice : std::uint8_t { kAuto, kCpu, kCuda };

struct ServerOptions {
  static constexpr int kNoPort = -1;

  // The options that `config` describes. InvalidArgument, naming the setting, its value and what is
  // accepted, if they are not in order, each by itself and together.
  static absl::StatusOr<ServerOptions> FromConfig(const config::v1::ServerConfig& config);

  // Whether the settings agree with each other; InvalidArgument naming those that do not.
  absl::Status Validate() const;

  std::string bind_address;
  int grpc_port = 0;        // 0: any free one, kNoPort: none
  std::string unix_socket;  // empty: none
  std::string http_address;
  int http_port = 0;      // as grpc_port
  std::string port_file;  // empty: none
  bool reflection = true;

  BackendChoice backend = BackendChoice::kAuto;
  CpuDeviceOptions cpu;
  CudaDeviceOptions cuda;

  EngineOptions engine;
  RpcOptions rpc;
  std::int64_t grpc_memory_bytes = 0;  // 0: no limit
  absl::Duration max_connection_age = absl::InfiniteDuration();
  std::int64_t malloc_trim_threshold_bytes = 0;  // 0: the C library decides

  absl::Duration drain_delay;
  absl::Duration drain_timeout;

  LogOptions log;
};

}  // namespace attnd
