#include "server/rpc/rpc_options.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "grpc/grpc.h"
#include "grpc/impl/codegen/compression_types.h"
#include "server/rpc/error_details.h"

namespace attnd {
namespace {

// Of the message around its tensors: spec, tags and lengths.
constexpr std::int64_t kMessageOverheadBytes = 64 << 10;
constexpr absl::Duration kMinPingInterval = absl::Seconds(10);
constexpr int kMaxPingStrikes = 5;

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(std::clamp<std::int64_t>(absl::ToInt64Milliseconds(duration), 1,
                                                   std::numeric_limits<int>::max()));
}

std::int64_t LargestMessage(const RpcOptions& options) {
  return options.max_message_bytes + kMessageOverheadBytes;
}

}  // namespace

absl::Duration TransferTime(std::int64_t bytes, const RpcOptions& options) {
  if (options.stream_min_bytes_per_second == 0) return absl::InfiniteDuration();
  return options.stream_idle_timeout +
         absl::Seconds(static_cast<double>(bytes) /
                       static_cast<double>(options.stream_min_bytes_per_second));
}

absl::Status CheckMessageSize(std::int64_t message_bytes, const RpcOptions& options) {
  if (message_bytes <= LargestMessage(options)) return absl::OkStatus();
  return FieldError("message", absl::StrCat("is of ", message_bytes, " bytes, accepted: at most ",
                                            LargestMessage(options), " (max_message_bytes is ",
                                            options.max_message_bytes,
                                            "); AttendStream takes larger problems in chunks"));
}

std::int64_t LargestReceivedMessageBytes(const RpcOptions& options) {
  return std::min<std::int64_t>(2 * LargestMessage(options), std::numeric_limits<int>::max());
}

void ConfigureServerBuilder(grpc::ServerBuilder& builder, const RpcOptions& options) {
  builder.SetMaxReceiveMessageSize(static_cast<int>(LargestReceivedMessageBytes(options)));
  builder.SetMaxSendMessageSize(-1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, options.max_frame_bytes);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, options.bdp_probe ? 1 : 0);

  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_interval));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                             Milliseconds(options.keepalive_timeout));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Tools that ping often are served, not sent away with too_many_pings.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             Milliseconds(kMinPingInterval));
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, kMaxPingStrikes);

  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

}  // namespace attnd
