// The gRPC server: where it listens, its transport, health and reflection.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "grpcpp/impl/service_type.h"
#include "grpcpp/server.h"
#include "server/server_options.h"

namespace attnd {

// Serves `service`, which outlives the server, with gRPC's health service and, if the options say
// so, reflection. Sets *port to the TCP port listened on, and leaves it where there is none.
// Unavailable if the server cannot listen there.
absl::StatusOr<std::unique_ptr<grpc::Server>> StartGrpcServer(const ServerOptions& options,
                                                              grpc::Service* service, int* port);

}  // namespace attnd
