// Settings of the gRPC layer.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/server_builder.h"
#include "server/rpc/request_validator.h"

namespace attnd {

struct RpcOptions {
  // What GetServerInfo calls the server's version.
  std::string version;

  // Largest message received, and largest result of a unary call. Larger problems go through
  // AttendStream.
  std::int64_t max_message_bytes = std::int64_t{64} << 20;
  // Bytes of unary requests that may wait for admission at once, outside the staging pool; the next
  // request is refused.
  std::int64_t max_waiting_request_bytes = std::int64_t{1} << 30;
  // Largest chunk that AttendStream sends. Smaller ones cost calls, larger ones leave the cache
  // between two copies.
  std::int64_t stream_chunk_bytes = std::int64_t{1} << 20;
  // How long an AttendStream may hold its memory while its client neither sends nor takes a chunk;
  // see also TransferTime.
  absl::Duration stream_idle_timeout = absl::Seconds(30);
  // The slowest rate of TransferTime. 0: any time.
  std::int64_t stream_min_bytes_per_second = std::int64_t{1} << 20;
  RequestLimits limits;

  // HTTP/2 frame size that peers may send. With the default of 16 KiB a 1 MiB chunk arrives in four
  // times as many slices.
  int max_frame_bytes = 1 << 20;
  // Whether gRPC measures the bandwidth-delay product and widens its windows. On for networks with
  // a round trip above 100 us; off, windows stay cache-warm and many connections on one host are
  // faster (17.7 against 15.4 GB/s over 8).
  bool bdp_probe = true;
  // A peer that answers no ping for `timeout` is gone; pings go out after `interval` without
  // traffic.
  absl::Duration keepalive_interval = absl::Seconds(60);
  absl::Duration keepalive_timeout = absl::Seconds(20);
};

// How long a client may take to bring `bytes` of a stream's tensors, or to take those of a stream's
// or a unary call's result: stream_idle_timeout and the time of the bytes at
// stream_min_bytes_per_second.
absl::Duration TransferTime(std::int64_t bytes, const RpcOptions& options);

// InvalidArgument, naming the limit and the way around it, for a message of more than
// max_message_bytes and a margin for what surrounds its tensors. gRPC receives up to twice as much,
// so that callers get this answer and not only gRPC's, which names neither.
absl::Status CheckMessageSize(std::int64_t message_bytes, const RpcOptions& options);

// The largest message that gRPC receives.
std::int64_t LargestReceivedMessageBytes(const RpcOptions& options);

// Applies what of `options` concerns the transport: message and frame sizes, keepalive, and no
// compression: decompressed messages would escape the size limit, and half-precision noise does not
// compress. A port in use is an error of BuildAndStart, not shared with the process that has it.
void ConfigureServerBuilder(grpc::ServerBuilder& builder, const RpcOptions& options);

}  // namespace attnd
