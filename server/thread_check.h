// Says that the system does not let as many threads start as settings ask for, before the parts
// that start them would end the process.
#pragma once

#include "absl/status/status.h"
#include "server/server_options.h"

namespace attnd {

// InvalidArgument, naming the settings, their values and how many threads could be started.
absl::Status CheckThreadsCanStart(const ServerOptions& options);

}  // namespace attnd
