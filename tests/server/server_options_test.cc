#include "server/server_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace attnd {
namespace {

using ::testing::HasSubstr;

ServerOptions OptionsOf(const config::v1::ServerConfig& config) {
  absl::StatusOr<ServerOptions> options = ServerOptions::FromConfig(config);
  EXPECT_TRUE(options.ok()) << options.status();
  return *std::move(options);
}

std::string ErrorOf(const config::v1::ServerConfig& config) {
  const absl::Status status = ServerOptions::FromConfig(config).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ServerOptionsTest, DefaultsAreThoseOfTheSchema) {
  const ServerOptions options = OptionsOf({});
  EXPECT_EQ(options.bind_address, "127.0.0.1");
  EXPECT_EQ(options.grpc_port, 8001);
  EXPECT_EQ(options.http_port, 8002);
  EXPECT_EQ(options.backend, BackendChoice::kAuto);
  EXPECT_EQ(options.cpu.device_memory_bytes, std::int64_t{1} << 30);
  EXPECT_EQ(options.cuda.device_memory_bytes, 0);
  EXPECT_EQ(options.cuda.staging_memory_bytes, std::int64_t{1} << 30);
  EXPECT_EQ(options.rpc.max_message_bytes, std::int64_t{64} << 20);
  EXPECT_EQ(options.rpc.stream_min_bytes_per_second, 1 << 20);
  EXPECT_EQ(options.rpc.version, "0.1.0");
  EXPECT_EQ(options.engine.max_queued_requests, 1024);
  EXPECT_EQ(options.max_connection_age, absl::Minutes(30));
  EXPECT_EQ(options.drain_timeout, absl::Seconds(15));
  EXPECT_EQ(options.log.level, spdlog::level::info);
}

TEST(ServerOptionsTest, SettingsReachTheirParts) {
  config::v1::ServerConfig config;
  config.set_backend("cuda");
  config.set_device_ordinal(3);
  config.set_device_memory_bytes("7GiB");
  config.set_staging_memory_bytes("5MiB");
  config.set_threads(6);
  config.set_streams(2);
  config.set_max_probs_bytes("1KiB");
  config.set_stream_chunk_bytes("8KiB");
  config.set_stream_idle_timeout("3s");
  config.set_stream_min_bytes_per_second("7KiB");
  config.set_max_queue_wait("4s");
  config.set_bdp_probe(false);
  config.set_max_connection_age("0s");
  config.set_log_level("error");
  config.set_log_format("json");
  const ServerOptions options = OptionsOf(config);
  EXPECT_EQ(options.backend, BackendChoice::kCuda);
  EXPECT_EQ(options.cuda.ordinal, 3);
  EXPECT_EQ(options.cuda.device_memory_bytes, std::int64_t{7} << 30);
  EXPECT_EQ(options.cpu.device_memory_bytes, std::int64_t{7} << 30);
  EXPECT_EQ(options.cpu.staging_memory_bytes, 5 << 20);
  EXPECT_EQ(options.cpu.num_threads, 6);
  EXPECT_EQ(options.cuda.num_streams, 2);
  EXPECT_EQ(options.engine.num_workers, 2);
  EXPECT_EQ(options.rpc.limits.max_probs_bytes, 1 << 10);
  EXPECT_EQ(options.rpc.stream_chunk_bytes, 8 << 10);
  EXPECT_EQ(options.rpc.stream_idle_timeout, absl::Seconds(3));
  EXPECT_EQ(options.rpc.stream_min_bytes_per_second, 7 << 10);
  EXPECT_EQ(options.engine.max_queue_wait, absl::Seconds(4));
  EXPECT_FALSE(options.rpc.bdp_probe);
  EXPECT_EQ(options.max_connection_age, absl::InfiniteDuration());
  EXPECT_EQ(options.log.level, spdlog::level::err);
  EXPECT_EQ(options.log.format, LogFormat::kJson);
}

TEST(ServerOptionsTest, HttpListensWhereGrpcDoesUnlessTold) {
  config::v1::ServerConfig config;
  config.set_bind_address("0.0.0.0");
  EXPECT_EQ(OptionsOf(config).http_address, "0.0.0.0");
  config.set_http_address("::1");
  EXPECT_EQ(OptionsOf(config).http_address, "::1");
}

TEST(ServerOptionsTest, TheSamePortTwiceIsRefused) {
  config::v1::ServerConfig config;
  config.set_grpc_port(7000);
  config.set_http_port(7000);
  EXPECT_EQ(ErrorOf(config), "grpc_port and http_port are both 7000; give each a port of its own");
}

TEST(ServerOptionsTest, AnyFreePortTwiceIsNotACollision) {
  config::v1::ServerConfig config;
  config.set_grpc_port(0);
  config.set_http_port(0);
  OptionsOf(config);
}

TEST(ServerOptionsTest, GrpcHasToListenSomewhere) {
  config::v1::ServerConfig config;
  config.set_grpc_port(ServerOptions::kNoPort);
  EXPECT_THAT(ErrorOf(config), HasSubstr("grpc_port is -1 and unix_socket is empty"));
  config.set_unix_socket("/tmp/s");
  OptionsOf(config);
}

TEST(ServerOptionsTest, AddressesAreNumeric) {
  config::v1::ServerConfig config;
  config.set_http_address("localhost");
  EXPECT_THAT(ErrorOf(config), HasSubstr("http_address: got \"localhost\"; accepted: an IPv4"));
}

TEST(ServerOptionsTest, AUnixSocketPathHasToFit) {
  config::v1::ServerConfig config;
  config.set_unix_socket(std::string(107, 'x'));
  OptionsOf(config);
  config.set_unix_socket(std::string(108, 'x'));
  EXPECT_THAT(ErrorOf(config), HasSubstr("got a path of 108 bytes; accepted: at most 107"));
}

TEST(ServerOptionsTest, GrpcMemoryHasToHoldTheLargestMessage) {
  config::v1::ServerConfig config;
  config.set_max_message_bytes("1MiB");
  config.set_grpc_memory_bytes("2228223");
  EXPECT_EQ(ErrorOf(config),
            "grpc_memory_bytes: got 2228223; accepted: 0 (no limit), or at least 2228224, the "
            "largest message received where max_message_bytes is 1048576");
  config.set_grpc_memory_bytes("2228224");
  EXPECT_EQ(OptionsOf(config).grpc_memory_bytes, 2228224);
  config.set_grpc_memory_bytes("0");
  OptionsOf(config);
}

TEST(ServerOptionsTest, TheLargestMessageLimitFitsTheDefaultGrpcMemory) {
  config::v1::ServerConfig config;
  config.set_max_message_bytes("2147483647B");
  OptionsOf(config);
}

TEST(ServerOptionsTest, ValuesThatNoFlagWouldAcceptAreRefusedHereToo) {
  config::v1::ServerConfig config;
  config.set_drain_timeout("soon");
  EXPECT_THAT(ErrorOf(config), HasSubstr("drain_timeout: got \"soon\"; accepted: a time"));
}

}  // namespace
}  // namespace attnd
