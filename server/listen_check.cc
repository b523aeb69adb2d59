#include "server/listen_check.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/telemetry/socket.h"

namespace attnd {
namespace {

absl::Status CannotListen(const std::string& where, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", where, ": ", why));
}

}  // namespace

absl::Status CheckTcpPortIsFree(const std::string& address, int port) {
  return BindTcp(address, port).status();
}

absl::Status CheckUnixSocketIsFree(const std::string& path) {
  struct stat file = {};
  if (stat(path.c_str(), &file) != 0) return absl::OkStatus();
  if (!S_ISSOCK(file.st_mode)) return CannotListen(path, "it exists and is no socket");
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (probe.get() < 0) return CannotListen(path, std::strerror(errno));
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) {
    return CannotListen(path, std::strerror(EADDRINUSE));
  }
  return absl::OkStatus();
}

absl::Status WithFlags(const absl::Status& status, absl::string_view flags) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), " (", flags, ")"));
}

}  // namespace attnd
