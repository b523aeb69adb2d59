#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "server/telemetry/http_connection.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"

namespace attnd::fuzz {
namespace {

// What a handler may rely on.
HttpResponse Answer(const HttpRequest& request) {
  const std::string both = request.method + request.path;
  CheckInvariant(std::none_of(both.begin(), both.end(),
                              [](char c) { return c == ' ' || absl::ascii_iscntrl(c); }),
                 "method and path are words without control characters");
  CheckInvariant(request.path.find('?') == std::string::npos, "a path has no query");
  return {.body = "ok\n"};
}

// All that has been sent to the socket so far.
std::string Received(int fd) {
  std::string all;
  char block[4096];
  for (ssize_t size; (size = recv(fd, block, sizeof(block), MSG_DONTWAIT)) > 0;)
    all.append(block, size);
  return all;
}

}  // namespace

void FuzzHttpRequest(const std::uint8_t* data, std::size_t size) {
  int ends[2];
  CheckInvariant(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0,
                 "there is a pair of sockets");
  const FileDescriptor peer(ends[0]);
  HttpConnection connection{FileDescriptor(ends[1])};
  if (size == 0) return;

  const std::size_t piece_bytes = 1 + data[0];
  int calls = 0;
  for (std::size_t begin = 1; begin < size && !connection.done(); begin += piece_bytes) {
    // Fails once the connection has ended.
    (void)!send(peer.get(), data + begin, std::min(piece_bytes, size - begin), MSG_NOSIGNAL);
    connection.Advance([&calls](const HttpRequest& request) {
      ++calls;
      return Answer(request);
    });
  }
  shutdown(peer.get(), SHUT_WR);
  for (int turns = 0; turns < 1000 && !connection.done(); ++turns) connection.Advance(Answer);

  CheckInvariant(connection.done(), "a connection ends when its peer has no more to say");
  CheckInvariant(calls <= 1, "one request is answered");
  const std::string reply = Received(peer.get());
  CheckInvariant(reply.empty() || std::string_view(reply).substr(0, 9) == "HTTP/1.1 ",
                 "what is sent is HTTP");
}

}  // namespace attnd::fuzz
