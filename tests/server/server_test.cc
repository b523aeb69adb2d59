// What a server does when its device fails, which no real device can be asked to do.
#include "server/server.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "attnd/v1/attention.grpc.pb.h"
#include "health.grpc.pb.h"
#include "tests/testing/http_get.h"

namespace attnd {
namespace {

using ::grpc::health::v1::Health;
using ::grpc::health::v1::HealthCheckRequest;
using ::grpc::health::v1::HealthCheckResponse;
using testing::HttpGet;

// A CPU device that fails for good when told to.
class BreakableDevice : public Device {
 public:
  explicit BreakableDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  void Break() { broken_ = true; }

  const DeviceInfo& info() const override { return device_->info(); }
  absl::StatusOr<Buffer> AllocateDevice(std::int64_t size_bytes) override {
    return device_->AllocateDevice(size_bytes);
  }
  absl::StatusOr<Buffer> AllocateStaging(std::int64_t size_bytes) override {
    return device_->AllocateStaging(size_bytes);
  }
  PoolUsage device_usage() const override { return device_->device_usage(); }
  PoolUsage staging_usage() const override { return device_->staging_usage(); }
  absl::StatusOr<StageSeconds> Run(const DeviceWork& work,
                                   absl::FunctionRef<absl::Status()> before_stage) override {
    if (broken_) return health();
    return device_->Run(work, before_stage);
  }
  absl::Status health() const override {
    return broken_ ? absl::InternalError("illegal address at /src/lane.cc:104") : absl::OkStatus();
  }

 private:
  const std::unique_ptr<Device> device_;
  std::atomic<bool> broken_ = false;
};

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    config::v1::ServerConfig config;
    config.set_grpc_port(0);
    config.set_http_port(0);
    config.set_threads(1);
    const ServerOptions options = ServerOptions::FromConfig(config).value();
    auto device = std::make_unique<BreakableDevice>(CreateCpuDevice(options.cpu).value());
    device_ = device.get();
    server_ = Server::Create(options, std::move(device)).value();
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->grpc_port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = v1::AttentionService::NewStub(channel_);
  }

  using Stream = grpc::ClientReaderWriter<v1::AttendStreamRequest, v1::AttendStreamResponse>;

  // A call that holds memory of the server and will never have all its input.
  std::unique_ptr<Stream> OpenStream(grpc::ClientContext* context) {
    v1::AttendStreamRequest request;
    v1::AttentionSpec* spec = request.mutable_header();
    spec->set_batch_size(1);
    spec->set_seqlen_q(1);
    spec->set_seqlen_k(1);
    spec->set_num_heads(1);
    spec->set_head_dim(8);
    spec->set_dtype(v1::DATA_TYPE_FLOAT32);
    std::unique_ptr<Stream> stream = stub_->AttendStream(context);
    EXPECT_TRUE(stream->Write(request));
    while (device_->staging_usage().used_bytes == 0) std::this_thread::yield();
    return stream;
  }

  BreakableDevice* device_ = nullptr;  // owned by server_
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::AttentionService::Stub> stub_;
};

TEST_F(ServerTest, IsReadyOnceCreated) {
  EXPECT_TRUE(server_->Ready().ok());
  EXPECT_EQ(HttpGet(server_->http_port(), "/readyz").code, 200);
}

TEST_F(ServerTest, ADeviceThatFailsEndsReadinessAndTheServer) {
  const auto stub = Health::NewStub(channel_);
  grpc::ClientContext context;
  const auto watch = stub->Watch(&context, HealthCheckRequest());
  HealthCheckResponse health;
  ASSERT_TRUE(watch->Read(&health));
  ASSERT_EQ(health.status(), HealthCheckResponse::SERVING);

  device_->Break();
  EXPECT_EQ(HttpGet(server_->http_port(), "/readyz").code, 503);
  EXPECT_EQ(HttpGet(server_->http_port(), "/readyz").body, "the device has failed\n");
  EXPECT_EQ(HttpGet(server_->http_port(), "/healthz").code, 200);

  EXPECT_EQ(server_->Run([](absl::Duration) { return false; }), ExitCode::kDeviceUnusable);
  ASSERT_TRUE(watch->Read(&health));
  EXPECT_EQ(health.status(), HealthCheckResponse::NOT_SERVING);
}

TEST_F(ServerTest, ADeviceThatFailsDuringTheDrainIsToldByTheExitCode) {
  grpc::ClientContext context;
  const auto stream = OpenStream(&context);
  bool signalled = false;
  EXPECT_EQ(server_->Run([this, &signalled](absl::Duration) {
    if (signalled) {
      device_->Break();
      return false;
    }
    signalled = true;
    return true;
  }),
            ExitCode::kDeviceUnusable);
}

TEST_F(ServerTest, DestroyingAServerThatNeverRanCancelsItsCalls) {
  grpc::ClientContext context;
  const auto stream = OpenStream(&context);
  server_.reset();
  v1::AttendStreamResponse response;
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_FALSE(stream->Finish().ok());
}

}  // namespace
}  // namespace attnd
