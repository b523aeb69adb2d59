// The HTTP port: /metrics for Prometheus, /healthz and /readyz for probes. Nothing here waits for
// the device or its queue, so that a busy server still answers its probes.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "prometheus/collectable.h"
#include "server/telemetry/http_connection.h"
#include "server/telemetry/socket.h"

namespace attnd {

struct HttpEndpointOptions {
  std::string address = "127.0.0.1";  // an IPv4 or IPv6 address to listen on
  int port = 0;                       // 0: any free one
};

// Answers GET and HEAD:
//   /metrics   200, Prometheus text format 0.0.4
//   /healthz   200 "ok" as long as the process serves HTTP: liveness
//   /readyz    200 "ok", or 503 and the reason
// Anything else is 404, any other method 405. Serves from its creation until its destruction.
//
// One thread serves all connections by poll(). A peer that connects and says nothing costs a
// descriptor and no thread, and of too many the oldest is dropped: a probe never waits for others.
class HttpEndpoint {
 public:
  // Connections held at the same time.
  static constexpr int kMaxConnections = 256;

  // `ready` is called from the endpoint's thread and must not block. Unavailable if the port cannot
  // be listened on. Throws std::system_error where the system refuses the thread.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Create(
      const HttpEndpointOptions& options, std::shared_ptr<const prometheus::Collectable> metrics,
      std::function<absl::Status()> ready);

  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  // The port listened on.
  int port() const { return PortOf(listener_); }

 private:
  using Clock = HttpConnection::Clock;

  HttpEndpoint(FileDescriptor listener, FileDescriptor stop,
               std::shared_ptr<const prometheus::Collectable> metrics,
               std::function<absl::Status()> ready);

  void Serve();
  // Lets every connection on which something happened go on; false when it is time to stop.
  bool ServeOnce();
  void AcceptAll();
  void DropOneConnection();
  // Until the next deadline, for poll(): -1 if there is none.
  int PollTimeoutMilliseconds() const;

  HttpResponse Answer(const HttpRequest& request) const;
  HttpResponse Metrics() const;
  HttpResponse Readiness() const;

  const FileDescriptor listener_;
  const FileDescriptor stop_;  // an eventfd, readable once the thread is to end
  const std::shared_ptr<const prometheus::Collectable> metrics_;
  const std::function<absl::Status()> ready_;

  // The thread's own.
  std::list<HttpConnection> connections_;  // oldest first
  Clock::time_point accepts_from_;         // later than now while descriptors have run out

  std::thread thread_;  // last, so that it sees every other member made
};

}  // namespace attnd
