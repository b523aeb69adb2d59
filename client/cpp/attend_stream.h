// One attempt of AttendStream.
#pragma once

#include <grpcpp/generic/generic_stub.h>

#include <cstdint>

#include "absl/time/time.h"
#include "attnd/client.h"
#include "client/cpp/lent_memory.h"
#include "client/cpp/result_receiver.h"
#include "client/cpp/retry.h"

namespace attnd::internal {

struct StreamRequest {
  const v1::AttentionSpec& spec;
  const AttendInputs& inputs;
  std::int64_t chunk_bytes;
};

// Sends the spec and the inputs in chunks and gives the answer's parts to `receiver` as they
// arrive, on the calling thread. One message is being written and one being read at any time, so
// that gRPC's flow control bounds what is in flight.
AttemptOutcome CallAttendStream(grpc::GenericStub& stub, absl::Time deadline,
                                const StreamRequest& request, LentMemory& lent,
                                ResultReceiver& receiver);

}  // namespace attnd::internal
