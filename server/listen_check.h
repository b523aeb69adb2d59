// Says why an address cannot be listened on, before gRPC tries, which does not.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace attnd {

// `address` is an IPv4 or IPv6 address; port 0 is always free. Unavailable, with the system's own
// words, if it cannot be listened on.
absl::Status CheckTcpPortIsFree(const std::string& address, int port);

// Unavailable if a process listens on the unix socket, or if the path is something else than a
// socket. A socket that nobody listens on was left behind and does not count.
absl::Status CheckUnixSocketIsFree(const std::string& path);

// `status` with the flags named that decide where to listen.
absl::Status WithFlags(const absl::Status& status, absl::string_view flags);

}  // namespace attnd
