// The HTTP port: /metrics for Prometheus, /healthz and /readyz for probes. Nothing here waits for
// the device or its queue, so that a busy server still answers its probes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "prometheus/collectable.h"

struct mg_connection;
struct mg_context;

namespace attnd {

struct HttpEndpointOptions {
  std::string address = "127.0.0.1";  // an IPv4 or IPv6 address to listen on
  int port = 0;                       // 0: any free one
  // Connections served at the same time. Requests are short, but a peer that connects and says
  // nothing keeps a thread until it is timed out, and probes must not wait for that.
  int num_threads = 16;
};

// Answers GET and HEAD:
//   /metrics   200, Prometheus text format 0.0.4
//   /healthz   200 "ok" as long as the process serves HTTP: liveness
//   /readyz    200 "ok", or 503 and the reason
// Anything else is 404, any other method 405. Serves from its creation until its destruction, which
// waits for the requests being answered.
class HttpEndpoint {
 public:
  // `ready` is called from several threads and must not block. Unavailable if the port cannot be
  // listened on.
  static absl::StatusOr<std::unique_ptr<HttpEndpoint>> Create(
      const HttpEndpointOptions& options, std::shared_ptr<const prometheus::Collectable> metrics,
      std::function<absl::Status()> ready);

  ~HttpEndpoint();
  HttpEndpoint(const HttpEndpoint&) = delete;
  HttpEndpoint& operator=(const HttpEndpoint&) = delete;

  // The port listened on.
  int port() const { return port_; }

 private:
  struct Response {
    int code = 200;
    std::string content_type = "text/plain; charset=utf-8";
    std::string body;
  };

  HttpEndpoint(std::shared_ptr<const prometheus::Collectable> metrics,
               std::function<absl::Status()> ready);

  absl::Status Start(const HttpEndpointOptions& options);
  static int HandleRequest(mg_connection* connection, void* endpoint);
  Response Answer(const std::string& method, const std::string& path) const;
  Response Metrics() const;
  Response Readiness() const;

  const std::shared_ptr<const prometheus::Collectable> metrics_;
  const std::function<absl::Status()> ready_;
  std::string address_;
  int port_ = 0;
  mg_context* context_ = nullptr;  // owned
};

}  // namespace attnd
