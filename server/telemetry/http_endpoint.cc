#include "server/telemetry/http_endpoint.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"
#include "prometheus/text_serializer.h"

namespace attnd {
namespace {

// How long new connections wait when the process has no descriptor left for them.
constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpEndpoint>> HttpEndpoint::Create(
    const HttpEndpointOptions& options, std::shared_ptr<const prometheus::Collectable> metrics,
    std::function<absl::Status()> ready) {
  ASSIGN_OR_RETURN(FileDescriptor listener, ListenOnTcp(options.address, options.port));
  FileDescriptor stop(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (stop.get() < 0) {
    return absl::UnavailableError(absl::StrCat("cannot serve HTTP: ", std::strerror(errno)));
  }
  return std::unique_ptr<HttpEndpoint>(
      new HttpEndpoint(std::move(listener), std::move(stop), std::move(metrics), std::move(ready)));
}

HttpEndpoint::HttpEndpoint(FileDescriptor listener, FileDescriptor stop,
                           std::shared_ptr<const prometheus::Collectable> metrics,
                           std::function<absl::Status()> ready)
    : listener_(std::move(listener)),
      stop_(std::move(stop)),
      metrics_(std::move(metrics)),
      ready_(std::move(ready)),
      thread_([this] { Serve(); }) {}

HttpEndpoint::~HttpEndpoint() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void HttpEndpoint::Serve() {
  while (ServeOnce()) {
  }
}

bool HttpEndpoint::ServeOnce() {
  const bool accepts = Clock::now() >= accepts_from_;
  std::vector<pollfd> awaited = {{stop_.get(), POLLIN, 0},
                                 {accepts ? listener_.get() : -1, POLLIN, 0}};
  for (const HttpConnection& connection : connections_)
    awaited.push_back({connection.fd(), connection.awaited_event(), 0});
  // An interrupted poll leaves every revents at 0.
  poll(awaited.data(), awaited.size(), PollTimeoutMilliseconds());
  if (awaited[0].revents != 0) return false;

  const pollfd* event = awaited.data() + 2;
  for (HttpConnection& connection : connections_) {
    if ((event++)->revents == 0) continue;
    connection.Advance([this](const HttpRequest& request) { return Answer(request); });
  }
  const Clock::time_point now = Clock::now();
  connections_.remove_if(
      [now](const HttpConnection& c) { return c.done() || now >= c.deadline(); });
  if (awaited[1].revents != 0) AcceptAll();
  return true;
}

void HttpEndpoint::AcceptAll() {
  // As many as there is room for, so that a flood of connections does not keep those that are there
  // waiting.
  for (int i = 0; i < kMaxConnections; ++i) {
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) {
      if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
      accepts_from_ = Clock::now() + kAcceptPause;
      return DropOneConnection();
    }
    if (connections_.size() >= kMaxConnections) DropOneConnection();
    connections_.emplace_back(std::move(socket));
  }
}

void HttpEndpoint::DropOneConnection() {
  if (connections_.empty()) return;
  const auto waiting = std::find_if(connections_.begin(), connections_.end(),
                                    [](const HttpConnection& c) { return c.receiving(); });
  connections_.erase(waiting == connections_.end() ? connections_.begin() : waiting);
}

int HttpEndpoint::PollTimeoutMilliseconds() const {
  const Clock::time_point now = Clock::now();
  Clock::time_point next = Clock::time_point::max();
  if (now < accepts_from_) next = accepts_from_;
  for (const HttpConnection& connection : connections_)
    next = std::min(next, connection.deadline());
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now);
  return std::max(0, static_cast<int>(left.count()));
}

HttpResponse HttpEndpoint::Answer(const HttpRequest& request) const {
  const std::string& path = request.path;
  if (request.method != "GET" && request.method != "HEAD") {
    return {.code = 405,
            .body = absl::StrCat(request.method, " is not served here; use GET or HEAD\n")};
  }
  if (path == "/metrics") return Metrics();
  if (path == "/healthz") return {.body = "ok\n"};
  if (path == "/readyz") return Readiness();
  return {.code = 404, .body = "not found; this port serves /metrics, /healthz and /readyz\n"};
}

HttpResponse HttpEndpoint::Metrics() const {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, metrics_->Collect());
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = text.str()};
}

HttpResponse HttpEndpoint::Readiness() const {
  const absl::Status ready = ready_();
  if (ready.ok()) return {.body = "ok\n"};
  return {.code = 503, .body = absl::StrCat(ready.message(), "\n")};
}

}  // namespace attnd
