// The server as a whole: builds its parts in order, serves, drains and stops.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "grpcpp/server.h"
#include "server/device/device.h"
#include "server/engine/engine.h"
#include "server/exit_code.h"
#include "server/rpc/attention_service.h"
#include "server/server_options.h"
#include "server/telemetry/http_endpoint.h"
#include "server/telemetry/metrics.h"

namespace attnd {

// Waits for the wish to stop: true once for each signal, false if none comes within the time given.
using WaitForStop = absl::FunctionRef<bool(absl::Duration)>;

// Create and Run are for one thread; the rest is thread-safe.
class Server {
 public:
  // Serves on `device` from here on. Unavailable if it cannot listen where the options say;
  // ResourceExhausted where the system refuses a thread; `options` are validated.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const ServerOptions& options,
                                                        std::unique_ptr<Device> device);

  // Cancels what is still in flight and waits for it.
  ~Server();

  // Serves until `wait_for_stop` returns true, then drains:
  //   1. health says NOT_SERVING and /readyz 503, everything is served as before, for drain_delay;
  //   2. new requests are refused with UNAVAILABLE, those in flight go on, for drain_timeout at
  //   most, and a moment longer for those whose requests are on their way;
  //   3. what is left is cancelled and the connections are closed.
  // A second signal goes to the end at once, which is kDrainCutShort only if something was in
  // flight. A device that fails for good does too, after what is in flight has been told. After any
  // code but kOk work may still hang on the device, and destroying the server would wait for it.
  ExitCode Run(WaitForStop wait_for_stop);

  // OK, or why no requests should be sent here. Does not block.
  absl::Status Ready() const;

  // The ports listened on, or ServerOptions::kNoPort.
  int grpc_port() const { return grpc_port_; }
  int http_port() const;

 private:
  Server(const ServerOptions& options, std::unique_ptr<Device> device);

  absl::Status Start();
  absl::Status StartEngine();
  absl::Status StartGrpc();
  absl::Status StartHttp();
  void LogStarted() const;

  ExitCode Drain(WaitForStop wait_for_stop);
  ExitCode StopForDeviceFailure(const absl::Status& health);
  ExitCode CutShort(const char* reason);
  void StopBeingReady();
  bool Idle() const;
  bool ShutDownGrpc(absl::Duration grace);

  const ServerOptions options_;
  std::atomic<bool> stopping_ = false;
  int grpc_port_ = ServerOptions::kNoPort;

  // In the order in which each needs those above it.
  std::unique_ptr<Device> device_;
  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<AttentionService> service_;
  std::unique_ptr<grpc::Server> grpc_server_;
  std::unique_ptr<HttpEndpoint> http_;

  std::thread grpc_shutdown_;  // joined before anything above is destroyed
};

}  // namespace attnd
