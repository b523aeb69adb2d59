#include "tests/testing/http_get.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

namespace attnd::testing {
namespace {

// Everything the server says, or "" if it does not listen.
std::string Exchange(int port, const std::string& request) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval timeout = {.tv_sec = 10, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string reply;
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    char block[4096];
    ssize_t size = 0;
    while ((size = recv(fd, block, sizeof(block), 0)) > 0) reply.append(block, size);
  }
  close(fd);
  return reply;
}

}  // namespace

HttpReply HttpRequest(int port, const std::string& method, const std::string& path) {
  const std::string reply = Exchange(
      port, method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
  HttpReply parsed;
  const std::size_t end = reply.find("\r\n\r\n");
  if (end == std::string::npos) return parsed;
  parsed.head = reply.substr(0, end);
  parsed.body = reply.substr(end + 4);
  const std::size_t space = parsed.head.find(' ');
  if (space != std::string::npos) parsed.code = std::atoi(parsed.head.c_str() + space);
  return parsed;
}

}  // namespace attnd::testing
