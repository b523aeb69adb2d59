#pragma once

#include <string>

#include "absl/status/status.h"

namespace attnd {

// Writes "grpc_port=N\nhttp_port=N\n" to `path`, as a whole: who sees the file sees both ports. A
// port that is not listened on is -1. Unavailable, with the system's own words, if it cannot be
// written.
absl::Status WritePortFile(const std::string& path, int grpc_port, int http_port);

}  // namespace attnd
