#pragma once

#include <string>

#include "absl/status/status.h"

namespace attnd {

// Writes "grpc_port=N\nhttp_port=N\n" to `path`, as a whole: who sees the file sees both ports. A
// port that is not listened on is -1. Unavailable, with the system's own words, if it cannot be
// written.
absl::Status WritePortFile(const std::string& path, int grpc_port, int http_port);

// Removes the file, so that nobody takes the ports of an earlier server for those of this one. None
// is fine; Unavailable, with the system's own words, if one stays.
absl::Status RemovePortFile(const std::string& path);

}  // namespace attnd
