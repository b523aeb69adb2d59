#include "server/telemetry/socket.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace attnd {
namespace {

bool IsIpv6(const std::string& address) { return absl::StrContains(address, ':'); }

// Returns the address's size.
socklen_t FillAddress(const std::string& address, int port, sockaddr_storage* storage) {
  const auto network_port = htons(static_cast<std::uint16_t>(port));
  if (IsIpv6(address)) {
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

// The reason is in errno.
absl::Status CannotListen(const std::string& address, int port) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", HostPort(address, port), ": ", std::strerror(errno)));
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

std::string HostPort(const std::string& address, int port) {
  return IsIpv6(address) ? absl::StrCat("[", address, "]:", port)
                         : absl::StrCat(address, ":", port);
}

absl::StatusOr<FileDescriptor> BindTcp(const std::string& address, int port) {
  sockaddr_storage storage = {};
  const socklen_t size = FillAddress(address, port, &storage);
  FileDescriptor socket(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int reuse = 1;
  if (socket.get() < 0 ||
      setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) != 0 ||
      bind(socket.get(), reinterpret_cast<const sockaddr*>(&storage), size) != 0) {
    return CannotListen(address, port);
  }
  return socket;
}

absl::StatusOr<FileDescriptor> ListenOnTcp(const std::string& address, int port) {
  ASSIGN_OR_RETURN(FileDescriptor socket, BindTcp(address, port));
  if (listen(socket.get(), SOMAXCONN) != 0) return CannotListen(address, port);
  return socket;
}

int PortOf(const FileDescriptor& socket) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&storage), &size);
  // Both families keep the port at the same place.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

}  // namespace attnd
