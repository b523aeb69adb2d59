#include "server/telemetry/http_endpoint.h"

#include <sstream>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "civetweb.h"
#include "kernels/status_macros.h"
#include "prometheus/text_serializer.h"

namespace attnd {
namespace {

// A client that stalls longer than this in the middle of a request loses its connection, and its
// thread is free again.
constexpr char kRequestTimeoutMilliseconds[] = "3000";

std::string ListeningPort(const HttpEndpointOptions& options) {
  const bool ipv6 = absl::StrContains(options.address, ':');
  return ipv6 ? absl::StrCat("[", options.address, "]:", options.port)
              : absl::StrCat(options.address, ":", options.port);
}

const char* ReasonPhrase(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Service Unavailable";
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Create(
    const HttpEndpointOptions& options, std::shared_ptr<const prometheus::Collectable> metrics,
    std::function<absl::Status()> ready) {
  std::unique_ptr<HttpEndpoint> endpoint(new HttpEndpoint(std::move(metrics), std::move(ready)));
  RETURN_IF_ERROR(endpoint->Start(options));
  return endpoint;
}

HttpEndpoint::HttpEndpoint(std::shared_ptr<const prometheus::Collectable> metrics,
                           std::function<absl::Status()> ready)
    : metrics_(std::move(metrics)), ready_(std::move(ready)) {}

// civetweb looks for the wish to stop when a connection comes, or every two seconds: so connections
// come.
HttpEndpoint::~HttpEndpoint() {
  if (context_ == nullptr) return;
  absl::Notification stopped;
  std::thread stop([this, &stopped] {
    mg_stop(context_);
    stopped.Notify();
  });
  while (!stopped.WaitForNotificationWithTimeout(absl::Milliseconds(5))) {
    char error[64];
    mg_connection* wake = mg_connect_client(address_.c_str(), port_, 0, error, sizeof(error));
    if (wake != nullptr) mg_close_connection(wake);
  }
  stop.join();
}

absl::Status HttpEndpoint::Start(const HttpEndpointOptions& options) {
  if (absl::StrContains(options.address, ':') && !mg_check_feature(MG_FEATURES_IPV6)) {
    return absl::UnavailableError(absl::StrCat(
        "http_address: cannot serve HTTP on ", options.address,
        ": this system's HTTP library has no IPv6; accepted: an IPv4 address, or http_port -1"));
  }
  address_ = options.address;
  const std::string listening_port = ListeningPort(options);
  const std::string num_threads = absl::StrCat(options.num_threads);
  const char* settings[] = {
      "listening_ports",    listening_port.c_str(),      "num_threads", num_threads.c_str(),
      "request_timeout_ms", kRequestTimeoutMilliseconds, nullptr};
  const mg_callbacks callbacks = {};
  mg_init_data init = {&callbacks, this, settings};
  unsigned code = 0;
  char text[256] = "";
  mg_error_data error = {&code, text, sizeof(text)};
  context_ = mg_start2(&init, &error);
  if (context_ == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve HTTP on ", listening_port, ": ", text));
  }
  mg_server_port listening = {};
  if (mg_get_server_ports(context_, 1, &listening) != 1) {
    return absl::InternalError("the HTTP server does not tell its port");
  }
  port_ = listening.port;
  mg_set_request_handler(context_, "/", &HttpEndpoint::HandleRequest, this);
  return absl::OkStatus();
}

int HttpEndpoint::HandleRequest(mg_connection* connection, void* endpoint) {
  const mg_request_info* request = mg_get_request_info(connection);
  const std::string method = request->request_method;
  const Response response = static_cast<const HttpEndpoint*>(endpoint)->Answer(
      method, request->local_uri == nullptr ? "" : request->local_uri);
  const std::string head = absl::StrFormat(
      "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nCache-Control: no-store\r\n"
      "%sConnection: close\r\n\r\n",
      response.code, ReasonPhrase(response.code), response.content_type, response.body.size(),
      response.code == 405 ? "Allow: GET, HEAD\r\n" : "");
  mg_write(connection, head.data(), head.size());
  if (method != "HEAD") mg_write(connection, response.body.data(), response.body.size());
  return response.code;
}

HttpEndpoint::Response HttpEndpoint::Answer(const std::string& method,
                                            const std::string& path) const {
  if (method != "GET" && method != "HEAD") {
    return {.code = 405, .body = absl::StrCat(method, " is not served here; use GET or HEAD\n")};
  }
  if (path == "/metrics") return Metrics();
  if (path == "/healthz") return {.body = "ok\n"};
  if (path == "/readyz") return Readiness();
  return {.code = 404, .body = "not found; this port serves /metrics, /healthz and /readyz\n"};
}

HttpEndpoint::Response HttpEndpoint::Metrics() const {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, metrics_->Collect());
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = text.str()};
}

HttpEndpoint::Response HttpEndpoint::Readiness() const {
  const absl::Status ready = ready_();
  if (ready.ok()) return {.body = "ok\n"};
  return {.code = 503, .body = absl::StrCat(ready.message(), "\n")};
}

}  // namespace attnd
