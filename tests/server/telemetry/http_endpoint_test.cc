#include "server/telemetry/http_endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "prometheus/counter.h"
#include "prometheus/registry.h"
#include "tests/testing/http_get.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;
using testing::HttpGet;
using testing::HttpReply;
using testing::HttpRequest;

// A connection on which nothing is sent.
class SilentPeer {
 public:
  explicit SilentPeer(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ~SilentPeer() { close(fd_); }
  SilentPeer(const SilentPeer&) = delete;
  SilentPeer& operator=(const SilentPeer&) = delete;

 private:
  const int fd_;
};

class HttpEndpointTest : public ::testing::Test {
 protected:
  HttpEndpointTest() {
    prometheus::BuildCounter().Name("attnd_things_total").Register(*registry_).Add({}).Increment(3);
    absl::StatusOr<std::unique_ptr<HttpEndpoint>> endpoint =
        HttpEndpoint::Create({}, registry_, [this] {
          return ready_ ? absl::OkStatus() : absl::UnavailableError("the server is draining");
        });
    EXPECT_TRUE(endpoint.ok()) << endpoint.status();
    endpoint_ = *std::move(endpoint);
  }

  int port() const { return endpoint_->port(); }

  std::atomic<bool> ready_ = true;
  std::shared_ptr<prometheus::Registry> registry_ = std::make_shared<prometheus::Registry>();
  std::unique_ptr<HttpEndpoint> endpoint_;
};

TEST_F(HttpEndpointTest, PortZeroTakesAFreePort) { EXPECT_GT(port(), 0); }

TEST_F(HttpEndpointTest, MetricsComeInThePrometheusTextFormat) {
  const HttpReply reply = HttpGet(port(), "/metrics");
  EXPECT_EQ(reply.code, 200);
  EXPECT_THAT(reply.head, HasSubstr("Content-Type: text/plain; version=0.0.4"));
  EXPECT_THAT(reply.body, HasSubstr("# TYPE attnd_things_total counter\nattnd_things_total 3\n"));
}

TEST_F(HttpEndpointTest, ReadinessFollowsTheServer) {
  EXPECT_EQ(HttpGet(port(), "/readyz").code, 200);
  ready_ = false;
  const HttpReply reply = HttpGet(port(), "/readyz");
  EXPECT_EQ(reply.code, 503);
  EXPECT_EQ(reply.body, "the server is draining\n");
}

TEST_F(HttpEndpointTest, LivenessDoesNotFollowReadiness) {
  ready_ = false;
  const HttpReply reply = HttpGet(port(), "/healthz");
  EXPECT_EQ(reply.code, 200);
  EXPECT_EQ(reply.body, "ok\n");
}

TEST_F(HttpEndpointTest, HeadHasTheHeadAlone) {
  const HttpReply reply = HttpRequest(port(), "HEAD", "/healthz");
  EXPECT_EQ(reply.code, 200);
  EXPECT_THAT(reply.head, HasSubstr("Content-Length: 3"));
  EXPECT_EQ(reply.body, "");
}

TEST_F(HttpEndpointTest, OtherPathsAreNotFound) {
  for (const char* path : {"/", "/metrics/x", "/healthz2", "/etc/passwd", "/../etc/passwd"}) {
    EXPECT_EQ(HttpGet(port(), path).code, 404) << path;
  }
  EXPECT_THAT(HttpGet(port(), "/").body, HasSubstr("/metrics, /healthz and /readyz"));
}

TEST_F(HttpEndpointTest, OtherMethodsAreNotAllowed) {
  const HttpReply reply = HttpRequest(port(), "POST", "/metrics");
  EXPECT_EQ(reply.code, 405);
  EXPECT_THAT(reply.head, HasSubstr("Allow: GET, HEAD"));
}

TEST_F(HttpEndpointTest, PeersThatSayNothingDoNotHoldUpProbes) {
  std::vector<std::unique_ptr<SilentPeer>> peers;
  for (int i = 0; i < 8; ++i) peers.push_back(std::make_unique<SilentPeer>(port()));
  EXPECT_EQ(HttpGet(port(), "/healthz").code, 200);
}

TEST_F(HttpEndpointTest, ATakenPortIsUnavailable) {
  const absl::Status status =
      HttpEndpoint::Create({.port = port()}, registry_, [] { return absl::OkStatus(); }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("127.0.0.1:" + std::to_string(port())));
}

TEST_F(HttpEndpointTest, Ipv6IsServedOrRefusedClearly) {
  const auto endpoint =
      HttpEndpoint::Create({.address = "::1"}, registry_, [] { return absl::OkStatus(); });
  if (endpoint.ok()) GTEST_SKIP() << "this system's HTTP library has IPv6";
  EXPECT_EQ(endpoint.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(endpoint.status().message(), HasSubstr("http_address"));
  EXPECT_THAT(endpoint.status().message(), HasSubstr("accepted: an IPv4 address, or http_port -1"));
}

}  // namespace
}  // namespace attnd
