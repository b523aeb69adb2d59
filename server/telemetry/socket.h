// Sockets of the operating system, by what this server does with them.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace attnd {

// Closes its descriptor when destroyed. Move-only, empty after a move.
class FileDescriptor {
 public:
  // -1: empty.
  explicit FileDescriptor(int fd = -1) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int get() const { return fd_; }

 private:
  int fd_;
};

// "127.0.0.1:8001", "[::1]:8001".
std::string HostPort(const std::string& address, int port);

// A TCP socket bound to `address`, an IPv4 or IPv6 address; port 0: any free one. A port that only
// waits out its last connections is free. Unavailable "cannot listen on ADDRESS:PORT: " and the
// system's reason otherwise.
absl::StatusOr<FileDescriptor> BindTcp(const std::string& address, int port);

// The same, listening; accepting from it does not block.
absl::StatusOr<FileDescriptor> ListenOnTcp(const std::string& address, int port);

// The port that `socket` is bound to.
int PortOf(const FileDescriptor& socket);

}  // namespace attnd
