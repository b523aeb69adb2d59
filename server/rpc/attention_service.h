// attnd.v1.AttentionService: decodes requests, hands them to the engine and encodes what comes
// back.
#pragma once

#include <cstdint>

#include "attnd/v1/attention.grpc.pb.h"
#include "server/engine/engine.h"
#include "server/rpc/rpc_options.h"
#include "server/rpc/rpc_state.h"
#include "server/telemetry/metrics.h"

namespace attnd {

// Every method takes raw messages: tensor bytes are copied once, from network slices to staging
// memory, and a request that is no message is answered and counted here, not by gRPC without a
// word.
using RawAttentionService = v1::AttentionService::WithRawCallbackMethod_Attend<
    v1::AttentionService::WithRawCallbackMethod_AttendStream<
        v1::AttentionService::WithRawCallbackMethod_Merge<
            v1::AttentionService::WithRawCallbackMethod_GetServerInfo<
                v1::AttentionService::Service>>>>;

// Thread-safe. Register it with a server that ConfigureServerBuilder has set up, and destroy it
// after that server and before the engine.
class AttentionService final : public RawAttentionService {
 public:
  // `metrics` may be null; the service is its source of RpcReadings. `engine` and `metrics` must
  // outlive the service. Throws std::system_error where the system refuses a thread.
  AttentionService(Engine* engine, const RpcOptions& options, Metrics* metrics);
  // Waits until gRPC has let go of the last result.
  ~AttentionService() override;

  grpc::ServerUnaryReactor* Attend(grpc::CallbackServerContext* context,
                                   const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* AttendStream(
      grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* Merge(grpc::CallbackServerContext* context,
                                  const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;

  // Bytes of received requests that are not in staging memory yet and of merges, and of results
  // that are not sent yet.
  std::int64_t waiting_bytes() const { return state_.waiting.used_bytes(); }
  std::int64_t sending_bytes() const { return state_.sending.used_bytes(); }

 private:
  RpcState state_;
};

}  // namespace attnd
