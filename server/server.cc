#include "server/server.h"

#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "grpcpp/health_check_service_interface.h"
#include "kernels/status_macros.h"
#include "server/grpc_server.h"
#include "server/listen_check.h"
#include "server/port_file.h"
#include "server/telemetry/log.h"
#include "server/thread_check.h"

namespace attnd {
namespace {

constexpr char kServiceName[] = "attnd.v1.AttentionService";

// How often a serving server looks at its device's health: the longest that a broken device stays
// ready.
constexpr absl::Duration kHealthCheckInterval = absl::Milliseconds(200);
// How often a draining server looks whether it is idle.
constexpr absl::Duration kIdleCheckInterval = absl::Milliseconds(10);
// How long work may take to fail once its device has, to tell its callers so.
constexpr absl::Duration kDeviceFailureGrace = absl::Seconds(1);
// How long an idle server that drains goes on to refuse calls before it closes its connections:
// those that are on the wire are then told UNAVAILABLE. What reaches gRPC while it shuts down, it
// ends with CANCELLED.
constexpr absl::Duration kRefusalLinger = absl::Milliseconds(250);
// How long the last results may take on their way out once all work is done; also ends the calls
// that never end by themselves, as health watches.
constexpr absl::Duration kLastResultsGrace = absl::Milliseconds(500);
// How long cancelled calls may take to notice. Longer means that they hang on the device.
constexpr absl::Duration kCancelGrace = absl::Seconds(5);

std::string BackendName(const DeviceInfo& device) {
  return device.traits.backend == Backend::kCuda ? "cuda" : "cpu";
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Create(const ServerOptions& options,
                                                       std::unique_ptr<Device> device) {
  std::unique_ptr<Server> server(new Server(options, std::move(device)));
  try {
    RETURN_IF_ERROR(server->Start());
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the system refuses a thread just now (", error.code().message(),
                     "); fewer threads or streams leave room for the others"));
  }
  return server;
}

Server::Server(const ServerOptions& options, std::unique_ptr<Device> device)
    : options_(options),
      device_(std::move(device)),
      metrics_(std::make_shared<Metrics>(BuildInfo{.version = options.rpc.version,
                                                   .backend = BackendName(device_->info()),
                                                   .device_name = device_->info().name})) {}

Server::~Server() {
  if (grpc_shutdown_.joinable()) {
    grpc_shutdown_.join();
  } else if (grpc_server_ != nullptr) {
    grpc_server_->Shutdown(absl::ToChronoTime(absl::Now()));
  }
}

absl::Status Server::Start() {
  if (!options_.port_file.empty()) RETURN_IF_ERROR(RemovePortFile(options_.port_file));
  RETURN_IF_ERROR(StartEngine());
  RETURN_IF_ERROR(StartGrpc());
  RETURN_IF_ERROR(StartHttp());
  if (!options_.port_file.empty()) {
    RETURN_IF_ERROR(WritePortFile(options_.port_file, grpc_port(), http_port()));
  }
  LogStarted();
  return absl::OkStatus();
}

absl::Status Server::StartEngine() {
  ASSIGN_OR_RETURN(engine_, CreateEngine(options_.engine, *device_, metrics_.get()));
  service_ = std::make_unique<AttentionService>(engine_.get(), options_.rpc, metrics_.get());
  return absl::OkStatus();
}

absl::Status Server::StartGrpc() {
  RETURN_IF_ERROR(CheckRoomForGrpcThreads());
  ASSIGN_OR_RETURN(grpc_server_, StartGrpcServer(options_, service_.get(), &grpc_port_));
  grpc_server_->GetHealthCheckService()->SetServingStatus(kServiceName, true);
  return absl::OkStatus();
}

absl::Status Server::StartHttp() {
  if (options_.http_port == ServerOptions::kNoPort) return absl::OkStatus();
  auto http = HttpEndpoint::Create({.address = options_.http_address, .port = options_.http_port},
                                   metrics_, [this] { return Ready(); });
  if (!http.ok()) return WithFlags(http.status(), "--http-address, --http-port");
  http_ = *std::move(http);
  return absl::OkStatus();
}

void Server::LogStarted() const {
  const DeviceInfo& device = engine_->device().info();
  Log(spdlog::level::info, "server started",
      {{"version", options_.rpc.version},
       {"backend", BackendName(device)},
       {"device", device.name},
       {"device_memory_bytes", device.device_memory_bytes},
       {"staging_memory_bytes", device.staging_memory_bytes},
       {"address", options_.bind_address},
       {"grpc_port", grpc_port()},
       {"http_port", http_port()},
       {"unix_socket", options_.unix_socket}});
}

int Server::http_port() const { return http_ == nullptr ? ServerOptions::kNoPort : http_->port(); }

absl::Status Server::Ready() const {
  if (stopping_) return absl::UnavailableError("the server is shutting down");
  if (engine_->device().health().ok()) return absl::OkStatus();
  // Its error names source files, which are the log's business.
  return absl::UnavailableError("the device has failed");
}

ExitCode Server::Run(WaitForStop wait_for_stop) {
  while (!wait_for_stop(kHealthCheckInterval)) {
    const absl::Status health = engine_->device().health();
    if (!health.ok()) return StopForDeviceFailure(health);
  }
  return Drain(wait_for_stop);
}

ExitCode Server::Drain(WaitForStop wait_for_stop) {
  Log(spdlog::level::info, "draining",
      {{"requests_in_flight", engine_->requests_in_flight()},
       {"drain_delay", absl::FormatDuration(options_.drain_delay)},
       {"drain_timeout", absl::FormatDuration(options_.drain_timeout)}});
  StopBeingReady();
  bool at_once = wait_for_stop(options_.drain_delay);
  engine_->StartDraining();
  Log(spdlog::level::info, "refusing new requests",
      {{"requests_in_flight", engine_->requests_in_flight()}});
  const absl::Time deadline = absl::Now() + options_.drain_timeout;
  while (!Idle()) {
    const absl::Status health = engine_->device().health();
    if (!health.ok()) return StopForDeviceFailure(health);
    if (absl::Now() >= deadline) {
      const ExitCode code = CutShort("drain timeout");
      ShutDownGrpc(absl::ZeroDuration());
      return code;
    }
    if (at_once) return CutShort("second signal");
    at_once = wait_for_stop(kIdleCheckInterval);
  }
  if (!at_once) wait_for_stop(kRefusalLinger);
  if (!ShutDownGrpc(kLastResultsGrace)) return CutShort("calls that do not end");
  Log(spdlog::level::info, "server stopped");
  return ExitCode::kOk;
}

ExitCode Server::StopForDeviceFailure(const absl::Status& health) {
  Log(spdlog::level::err, "the device failed, stopping",
      {{"error", health.ToString()}, {"requests_in_flight", engine_->requests_in_flight()}});
  StopBeingReady();
  engine_->StartDraining();
  engine_->WaitUntilIdle(absl::Now() + kDeviceFailureGrace);
  ShutDownGrpc(kLastResultsGrace);
  return ExitCode::kDeviceUnusable;
}

ExitCode Server::CutShort(const char* reason) {
  Log(spdlog::level::warn, "drain cut short",
      {{"reason", reason}, {"requests_in_flight", engine_->requests_in_flight()}});
  return ExitCode::kDrainCutShort;
}

void Server::StopBeingReady() {
  stopping_ = true;
  grpc_server_->GetHealthCheckService()->SetServingStatus(false);
}

// No request computes, waits to be admitted, or has results that are not sent.
bool Server::Idle() const {
  return engine_->WaitUntilIdle(absl::Now()) && service_->waiting_bytes() == 0 &&
         service_->sending_bytes() == 0;
}

// Closes all connections; calls that have not ended within `grace` are cancelled. False if some do
// not end even so. On a thread of its own, because such a call makes gRPC wait for ever.
bool Server::ShutDownGrpc(absl::Duration grace) {
  auto done = std::make_shared<absl::Notification>();
  const auto deadline = absl::ToChronoTime(absl::Now() + grace);
  grpc_shutdown_ = std::thread([server = grpc_server_.get(), deadline, done] {
    server->Shutdown(deadline);
    done->Notify();
  });
  return done->WaitForNotificationWithTimeout(grace + kCancelGrace);
}

}  // namespace attnd
