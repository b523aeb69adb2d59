// The gRPC layer on a port of its own, in the process of the test.
#pragma once

#include <memory>
#include <string>

#include "attnd/v1/attention.grpc.pb.h"
#include "grpcpp/channel.h"
#include "grpcpp/server.h"
#include "server/engine/engine.h"
#include "server/rpc/attention_service.h"
#include "server/rpc/rpc_options.h"
#include "server/telemetry/metrics.h"

namespace attnd::testing {

// Serves `engine` on 127.0.0.1 until it is destroyed.
class InProcessServer {
 public:
  // `metrics` may be null. Both outlive the server.
  InProcessServer(Engine* engine, const RpcOptions& options, Metrics* metrics = nullptr);
  // Ends calls that are under way.
  ~InProcessServer();

  const std::string& address() const { return address_; }
  // A channel with a connection of its own and no limit on message sizes.
  std::shared_ptr<grpc::Channel> NewChannel() const;
  // Over one channel, made with the server.
  v1::AttentionService::Stub& stub() { return *stub_; }
  AttentionService& service() { return service_; }

 private:
  AttentionService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::unique_ptr<v1::AttentionService::Stub> stub_;
};

}  // namespace attnd::testing
