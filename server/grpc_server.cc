#include "server/grpc_server.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/impl/server_builder_plugin.h"
#include "grpcpp/resource_quota.h"
#include "grpcpp/server_builder.h"
#include "kernels/status_macros.h"
#include "server/listen_check.h"
#include "server/telemetry/socket.h"

namespace attnd {
namespace {

// Linking gRPC's reflection library is enough to serve reflection; this takes it out again.
class WithoutReflection : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins,
                  [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

void AddTransport(const ServerOptions& options, grpc::ServerBuilder* builder) {
  ConfigureServerBuilder(*builder, options.rpc);
  if (options.max_connection_age < absl::InfiniteDuration()) {
    builder->AddChannelArgument(
        GRPC_ARG_MAX_CONNECTION_AGE_MS,
        static_cast<int>(options.max_connection_age / absl::Milliseconds(1)));
  }
  if (options.grpc_memory_bytes > 0) {
    builder->SetResourceQuota(
        grpc::ResourceQuota("attnd").Resize(static_cast<std::size_t>(options.grpc_memory_bytes)));
  }
}

absl::Status AddListeners(const ServerOptions& options, grpc::ServerBuilder* builder, int* port) {
  if (options.grpc_port != ServerOptions::kNoPort) {
    RETURN_IF_ERROR(WithFlags(CheckTcpPortIsFree(options.bind_address, options.grpc_port),
                              "--bind-address, --grpc-port"));
    builder->AddListeningPort(HostPort(options.bind_address, options.grpc_port),
                              grpc::InsecureServerCredentials(), port);
  }
  if (!options.unix_socket.empty()) {
    RETURN_IF_ERROR(WithFlags(CheckUnixSocketIsFree(options.unix_socket), "--unix-socket"));
    builder->AddListeningPort(absl::StrCat("unix:", options.unix_socket),
                              grpc::InsecureServerCredentials());
  }
  return absl::OkStatus();
}

std::string DescribeListeners(const ServerOptions& options) {
  std::vector<std::string> listeners;
  if (options.grpc_port != ServerOptions::kNoPort) {
    listeners.push_back(HostPort(options.bind_address, options.grpc_port));
  }
  if (!options.unix_socket.empty()) listeners.push_back(options.unix_socket);
  return absl::StrJoin(listeners, " and ");
}

}  // namespace

absl::StatusOr<std::unique_ptr<grpc::Server>> StartGrpcServer(const ServerOptions& options,
                                                              grpc::Service* service, int* port) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  if (!options.reflection) builder.SetOption(std::make_unique<WithoutReflection>());
  AddTransport(options, &builder);
  RETURN_IF_ERROR(AddListeners(options, &builder, port));
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server != nullptr) return server;
  return absl::UnavailableError(absl::StrCat("cannot serve gRPC on ", DescribeListeners(options),
                                             "; the \"grpc\" lines of the log say why"));
}

}  // namespace attnd
