// Whether there is room for the threads of gRPC, which aborts, or waits for ever, where the system
// refuses one of them.
#pragma once

#include "absl/status/status.h"

namespace attnd {

// ResourceExhausted, with how many threads the system does start, where they are too few. To be
// called when all memory is mapped and all other threads run.
absl::Status CheckRoomForGrpcThreads();

}  // namespace attnd
