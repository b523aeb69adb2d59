#include "server/telemetry/http_endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "prometheus/counter.h"
#include "prometheus/registry.h"
#include "tests/testing/http_get.h"

namespace attnd {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::HttpGet;
using testing::HttpReply;
using testing::HttpRequest;
using ::testing::StartsWith;

// A connection on which the test says what is sent.
class Peer {
 public:
  explicit Peer(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Peer() { close(fd_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void Send(const std::string& text) {
    ASSERT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // All that comes until the server closes, or resets, the connection.
  std::string Receive() {
    std::string all;
    char block[4096];
    for (ssize_t size; (size = recv(fd_, block, sizeof(block), 0)) > 0;) all.append(block, size);
    return all;
  }

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

// Threads that wait for each such peer would be used up long before.
TEST_F(HttpEndpointTest, PeersThatSayNothingDoNotHoldUpProbes) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < HttpEndpoint::kMaxConnections - 1; ++i) {
    peers.push_back(std::make_unique<Peer>(port()));
    if (i % 2 == 0) peers.back()->Send("GET /healthz HT");
  }
  const absl::Time start = absl::Now();
  EXPECT_EQ(HttpGet(port(), "/healthz").code, 200);
  // The least time after which a silent peer is given up.
  EXPECT_LT(absl::Now() - start, absl::Seconds(3));
}

TEST_F(HttpEndpointTest, OfTooManyPeersTheOldestIsDropped) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (int i = 0; i < HttpEndpoint::kMaxConnections + 1; ++i)
    peers.push_back(std::make_unique<Peer>(port()));
  EXPECT_EQ(HttpGet(port(), "/healthz").code, 200);
  EXPECT_EQ(peers.front()->Receive(), "");
  peers.back()->Send("GET /healthz HTTP/1.1\r\n\r\n");
  EXPECT_THAT(peers.back()->Receive(), StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST_F(HttpEndpointTest, ARequestMayComeInPieces) {
  Peer peer(port());
  for (const char* piece : {"G", "ET /healthz?probe=1 HTTP/1.0\r\nHost: ", "a\r\n", "\r", "\n"}) {
    peer.Send(piece);
    EXPECT_EQ(HttpGet(port(), "/healthz").code, 200);  // others are served between
  }
  EXPECT_THAT(peer.Receive(), EndsWith("\r\n\r\nok\n"));
}

TEST_F(HttpEndpointTest, AProxysWholeUrlIsUnderstood) {
  EXPECT_EQ(HttpGet(port(), "http://attnd.example:8002/healthz").code, 200);
  EXPECT_EQ(HttpGet(port(), "http://attnd.example").code, 404);
}

TEST_F(HttpEndpointTest, WhatIsNotHttpIsToldSo) {
  for (const char* text :
       {"hello\r\n\r\n", "\r\n\r\n", "GET /healthz\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "GET  /healthz HTTP/1.1\r\n\r\n", "GET /healthz\nHost: HTTP/1.1\r\n\r\n"}) {
    Peer peer(port());
    peer.Send(text);
    EXPECT_THAT(peer.Receive(), StartsWith("HTTP/1.1 400 Bad Request\r\n")) << text;
  }
}

TEST_F(HttpEndpointTest, AnEndlessHeadIsRefused) {
  Peer peer(port());
  peer.Send("GET /healthz HTTP/1.1\r\n" + std::string(10000, 'x'));
  EXPECT_THAT(peer.Receive(), StartsWith("HTTP/1.1 431 "));
}

// Closed with bytes unread, the connection would be reset, and the reply lost with it.
TEST_F(HttpEndpointTest, AReplyOutlivesABodyThatIsNotRead) {
  Peer peer(port());
  peer.Send("POST /metrics HTTP/1.1\r\nContent-Length: 100000\r\n\r\n" + std::string(100000, 'x'));
  EXPECT_THAT(peer.Receive(), StartsWith("HTTP/1.1 405 Method Not Allowed\r\n"));
}

TEST_F(HttpEndpointTest, APeerThatHasGoneHarmsNobody) {
  for (int i = 0; i < 20; ++i) {
    Peer peer(port());
    if (i % 2 == 0) peer.Send("GET /metrics HTTP/1.1\r\n\r\n");
  }
  EXPECT_EQ(HttpGet(port(), "/healthz").code, 200);
}

TEST_F(HttpEndpointTest, ATakenPortIsUnavailable) {
  const absl::Status status =
      HttpEndpoint::Create({.port = port()}, registry_, [] { return absl::OkStatus(); }).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("127.0.0.1:" + std::to_string(port())));
}

TEST_F(HttpEndpointTest, Ipv6IsServed) {
  const auto endpoint =
      HttpEndpoint::Create({.address = "::1"}, registry_, [] { return absl::OkStatus(); });
  if (!endpoint.ok()) GTEST_SKIP() << "no IPv6 here: " << endpoint.status();
  EXPECT_GT((*endpoint)->port(), 0);
}

}  // namespace
}  // namespace attnd
