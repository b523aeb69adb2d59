#include "server/server_options.h"

#include <arpa/inet.h>
#include <sys/un.h>

#include <string_view>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"
#include "server/setting.h"
#include "server/version.h"

namespace attnd {
namespace {

using config::v1::ServerConfig;

// The terminating null included, as bind wants it.
constexpr std::size_t kMaxUnixSocketPathBytes = sizeof(sockaddr_un::sun_path);

absl::Status CheckEverySetting(const ServerConfig& config) {
  const google::protobuf::Descriptor& settings = *ServerConfig::descriptor();
  for (int i = 0; i < settings.field_count(); ++i) {
    const absl::Status status = CheckSetting(*settings.field(i), config);
    if (!status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(settings.field(i)->name(), ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

// Of texts that CheckEverySetting accepted.
std::int64_t Bytes(const std::string& text) { return ParseBytes(text).value(); }
absl::Duration Time(const std::string& text) { return ParseDuration(text).value(); }

BackendChoice BackendFrom(std::string_view name) {
  if (name == "cpu") return BackendChoice::kCpu;
  return name == "cuda" ? BackendChoice::kCuda : BackendChoice::kAuto;
}

spdlog::level::level_enum LevelFrom(std::string_view name) {
  if (name == "debug") return spdlog::level::debug;
  if (name == "info") return spdlog::level::info;
  return name == "warning" ? spdlog::level::warn : spdlog::level::err;
}

void FillListening(const ServerConfig& config, ServerOptions* options) {
  options->bind_address = config.bind_address();
  options->grpc_port = config.grpc_port();
  options->unix_socket = config.unix_socket();
  options->http_address =
      config.http_address().empty() ? config.bind_address() : config.http_address();
  options->http_port = config.http_port();
  options->port_file = config.port_file();
  options->reflection = config.reflection();
}

void FillDevice(const ServerConfig& config, ServerOptions* options) {
  const std::int64_t device_memory_bytes = Bytes(config.device_memory_bytes());
  options->backend = BackendFrom(config.backend());
  if (device_memory_bytes > 0) options->cpu.device_memory_bytes = device_memory_bytes;
  options->cpu.staging_memory_bytes = Bytes(config.staging_memory_bytes());
  options->cpu.num_threads = config.threads();
  options->cuda.ordinal = config.device_ordinal();
  options->cuda.device_memory_bytes = device_memory_bytes;
  options->cuda.staging_memory_bytes = Bytes(config.staging_memory_bytes());
  options->cuda.num_streams = config.streams();
}

void FillLimits(const ServerConfig& config, ServerOptions* options) {
  options->engine.num_workers = config.streams();
  options->engine.max_queued_requests = config.max_queued_requests();
  options->engine.max_queue_wait = Time(config.max_queue_wait());
  options->rpc.version = std::string(Version());
  options->rpc.max_message_bytes = Bytes(config.max_message_bytes());
  options->rpc.max_waiting_request_bytes = Bytes(config.max_waiting_request_bytes());
  options->rpc.limits.max_probs_bytes = Bytes(config.max_probs_bytes());
  options->rpc.stream_chunk_bytes = Bytes(config.stream_chunk_bytes());
  options->rpc.stream_idle_timeout = Time(config.stream_idle_timeout());
  options->rpc.stream_min_bytes_per_second = Bytes(config.stream_min_bytes_per_second());
}

void FillTransport(const ServerConfig& config, ServerOptions* options) {
  options->rpc.max_frame_bytes = static_cast<int>(Bytes(config.max_frame_bytes()));
  options->rpc.bdp_probe = config.bdp_probe();
  options->rpc.keepalive_interval = Time(config.keepalive_time());
  options->rpc.keepalive_timeout = Time(config.keepalive_timeout());
  options->grpc_memory_bytes = Bytes(config.grpc_memory_bytes());
  const absl::Duration age = Time(config.max_connection_age());
  options->max_connection_age = age > absl::ZeroDuration() ? age : absl::InfiniteDuration();
  options->malloc_trim_threshold_bytes = Bytes(config.malloc_trim_threshold_bytes());
}

absl::Status CheckAddress(std::string_view name, const std::string& address) {
  in6_addr parsed;
  if (inet_pton(AF_INET, address.c_str(), &parsed) == 1 ||
      inet_pton(AF_INET6, address.c_str(), &parsed) == 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(name), ": got \"", address,
                   "\"; accepted: an IPv4 or IPv6 address, as 127.0.0.1, 0.0.0.0 or ::1"));
}

// With less, gRPC resets the streams of messages that the server says it takes.
absl::Status CheckGrpcMemory(std::int64_t grpc_memory_bytes, const RpcOptions& rpc) {
  const std::int64_t needed = LargestReceivedMessageBytes(rpc);
  if (grpc_memory_bytes == 0 || grpc_memory_bytes >= needed) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "grpc_memory_bytes: got ", grpc_memory_bytes, "; accepted: 0 (no limit), or at least ",
      needed, ", the largest message received where max_message_bytes is ", rpc.max_message_bytes));
}

}  // namespace

absl::StatusOr<ServerOptions> ServerOptions::FromConfig(const ServerConfig& config) {
  RETURN_IF_ERROR(CheckEverySetting(config));
  ServerOptions options;
  FillListening(config, &options);
  FillDevice(config, &options);
  FillLimits(config, &options);
  FillTransport(config, &options);
  options.drain_delay = Time(config.drain_delay());
  options.drain_timeout = Time(config.drain_timeout());
  options.log.level = LevelFrom(config.log_level());
  options.log.format = config.log_format() == "json" ? LogFormat::kJson : LogFormat::kText;
  RETURN_IF_ERROR(options.Validate());
  return options;
}

absl::Status ServerOptions::Validate() const {
  RETURN_IF_ERROR(CheckAddress("bind_address", bind_address));
  RETURN_IF_ERROR(CheckAddress("http_address", http_address));
  if (grpc_port == kNoPort && unix_socket.empty()) {
    return absl::InvalidArgumentError(
        "grpc_port is -1 and unix_socket is empty; gRPC needs one of them to listen on");
  }
  if (grpc_port > 0 && grpc_port == http_port) {
    return absl::InvalidArgumentError(absl::StrCat("grpc_port and http_port are both ", grpc_port,
                                                   "; give each a port of its own"));
  }
  if (unix_socket.size() >= kMaxUnixSocketPathBytes) {
    return absl::InvalidArgumentError(absl::StrCat("unix_socket: got a path of ",
                                                   unix_socket.size(), " bytes; accepted: at most ",
                                                   kMaxUnixSocketPathBytes - 1));
  }
  return CheckGrpcMemory(grpc_memory_bytes, rpc);
}

}  // namespace attnd
