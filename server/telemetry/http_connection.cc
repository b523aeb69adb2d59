#include "server/telemetry/http_connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace attnd {
namespace {

constexpr std::size_t kMaxHeadBytes = 8192;

// How long a peer may take to send its request, to take the reply, and to close.
constexpr std::chrono::seconds kReceiveTimeout{3};
constexpr std::chrono::seconds kSendTimeout{10};
constexpr std::chrono::seconds kLingerTimeout{1};

const char* ReasonPhrase(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

// The request line of `head` (RFC 9112, section 3); nothing if it is not one.
std::optional<HttpRequest> ParseRequest(absl::string_view head) {
  const absl::string_view line = head.substr(0, head.find("\r\n"));
  const std::vector<absl::string_view> parts = absl::StrSplit(line, ' ');
  if (parts.size() != 3 || !absl::StartsWith(parts[2], "HTTP/1.")) return std::nullopt;
  if (std::any_of(line.begin(), line.end(), absl::ascii_iscntrl)) return std::nullopt;
  absl::string_view target = parts[1];
  // Proxies are sent the whole URL.
  if (absl::ConsumePrefix(&target, "http://")) {
    target.remove_prefix(std::min(target.find('/'), target.size()));
  }
  return HttpRequest{.method = std::string(parts[0]),
                     .path = std::string(target.substr(0, target.find('?')))};
}

std::string Head(const HttpResponse& response) {
  return absl::StrFormat(
      "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nCache-Control: no-store\r\n"
      "%sConnection: close\r\n\r\n",
      response.code, ReasonPhrase(response.code), response.content_type, response.body.size(),
      response.code == 405 ? "Allow: GET, HEAD\r\n" : "");
}

}  // namespace

HttpConnection::HttpConnection(FileDescriptor socket) : socket_(std::move(socket)) {
  Enter(State::kReceiving, kReceiveTimeout);
}

short HttpConnection::awaited_event() const { return state_ == State::kSending ? POLLOUT : POLLIN; }

void HttpConnection::Advance(Handler handler) {
  if (state_ == State::kReceiving) Receive(handler);
  if (state_ == State::kSending) Send();
  if (state_ == State::kLingering) Linger();
}

void HttpConnection::Receive(Handler handler) {
  char block[2048];
  while (state_ == State::kReceiving) {
    const ssize_t size = recv(fd(), block, sizeof(block), 0);
    if (size < 0 && StopsHere()) return;
    if (size < 0) continue;
    if (size == 0) return Enter(State::kDone, {});
    received_.append(block, size);
    const std::size_t end = received_.find("\r\n\r\n");
    if (end == std::string::npos) {
      if (received_.size() > kMaxHeadBytes) {
        Reply({.code = 431, .body = "a head of at most 8 KiB is accepted\n"}, true);
      }
      continue;
    }
    const std::optional<HttpRequest> request = ParseRequest(received_);
    if (request.has_value()) {
      Reply(handler(*request), request->method != "HEAD");
    } else {
      Reply({.code = 400, .body = "this port speaks HTTP/1.1\n"}, true);
    }
  }
}

void HttpConnection::Reply(const HttpResponse& response, bool with_body) {
  reply_ = Head(response);
  if (with_body) reply_ += response.body;
  Enter(State::kSending, kSendTimeout);
}

void HttpConnection::Send() {
  while (sent_bytes_ < reply_.size()) {
    const ssize_t size =
        send(fd(), reply_.data() + sent_bytes_, reply_.size() - sent_bytes_, MSG_NOSIGNAL);
    if (size >= 0) {
      sent_bytes_ += size;
    } else if (StopsHere()) {
      return;
    }
  }
  // Closing a socket with bytes unread resets the connection, and the peer may lose the reply: what
  // still comes is read until the peer closes too.
  shutdown(fd(), SHUT_WR);
  Enter(State::kLingering, kLingerTimeout);
}

void HttpConnection::Linger() {
  char block[2048];
  const ssize_t size = recv(fd(), block, sizeof(block), 0);
  if (size == 0) return Enter(State::kDone, {});
  if (size < 0) StopsHere();
}

bool HttpConnection::StopsHere() {
  if (errno == EINTR) return false;
  if (errno != EAGAIN && errno != EWOULDBLOCK) Enter(State::kDone, {});
  return true;
}

void HttpConnection::Enter(State state, Clock::duration time_allowed) {
  state_ = state;
  deadline_ = Clock::now() + time_allowed;
}

}  // namespace attnd
