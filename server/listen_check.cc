#include "server/listen_check.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace attnd {
namespace {

absl::Status CannotListen(const std::string& where, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", where, ": ", why));
}

// Closes its descriptor.
class Socket {
 public:
  explicit Socket(int family) : fd_(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// An address of either family; returns its size.
socklen_t FillAddress(const std::string& address, int port, sockaddr_storage* storage) {
  const auto network_port = htons(static_cast<std::uint16_t>(port));
  if (absl::StrContains(address, ':')) {
    auto* ipv6 = reinterpret_cast<sockaddr_in6*>(storage);
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = network_port;
    inet_pton(AF_INET6, address.c_str(), &ipv6->sin6_addr);
    return sizeof(*ipv6);
  }
  auto* ipv4 = reinterpret_cast<sockaddr_in*>(storage);
  ipv4->sin_family = AF_INET;
  ipv4->sin_port = network_port;
  inet_pton(AF_INET, address.c_str(), &ipv4->sin_addr);
  return sizeof(*ipv4);
}

}  // namespace

std::string HostPort(const std::string& address, int port) {
  return absl::StrContains(address, ':') ? absl::StrCat("[", address, "]:", port)
                                         : absl::StrCat(address, ":", port);
}

absl::Status CheckTcpPortIsFree(const std::string& address, int port) {
  const std::string where = HostPort(address, port);
  sockaddr_storage storage = {};
  const socklen_t size = FillAddress(address, port, &storage);
  const Socket probe(storage.ss_family);
  if (probe.fd() < 0) return CannotListen(where, std::strerror(errno));
  // As the libraries set it: a port that only waits out its last connections is free.
  const int reuse = 1;
  setsockopt(probe.fd(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse));
  if (bind(probe.fd(), reinterpret_cast<const sockaddr*>(&storage), size) == 0) {
    return absl::OkStatus();
  }
  return CannotListen(where, std::strerror(errno));
}

absl::Status CheckUnixSocketIsFree(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return absl::OkStatus();
  if (!S_ISSOCK(file.st_mode)) return CannotListen(path, "it exists and is no socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const Socket probe(AF_UNIX);
  if (probe.fd() < 0) return CannotListen(path, std::strerror(errno));
  if (connect(probe.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return CannotListen(path, std::strerror(EADDRINUSE));
  }
  return absl::OkStatus();
}

}  // namespace attnd
