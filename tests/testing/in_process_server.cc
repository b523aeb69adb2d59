#include "tests/testing/in_process_server.h"

#include <chrono>

#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server_builder.h"

namespace attnd::testing {

InProcessServer::InProcessServer(Engine* engine, const RpcOptions& options, Metrics* metrics)
    : service_(engine, options, metrics) {
  grpc::ServerBuilder builder;
  ConfigureServerBuilder(builder, options);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&service_);
  server_ = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port);
  stub_ = v1::AttentionService::NewStub(NewChannel());
}

InProcessServer::~InProcessServer() {
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  server_.reset();
}

std::shared_ptr<grpc::Channel> InProcessServer::NewChannel() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  return grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace attnd::testing
