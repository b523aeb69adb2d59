// What the calls of one service share.
#pragma once

#include <cstdint>
#include <limits>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/rpc/byte_ledger.h"
#include "server/rpc/rpc_options.h"
#include "server/rpc/work_queue.h"
#include "server/telemetry/metrics.h"

namespace attnd {

// Outlives every call and every slice that a call has sent.
struct RpcState {
  RpcState(Engine* engine, const RpcOptions& options, Metrics* metrics)
      : engine(engine),
        options(options),
        metrics(metrics),
        waiting(options.max_waiting_request_bytes) {}

  Engine* const engine;
  const RpcOptions options;
  Metrics* const metrics;  // may be null
  // Requests that were received and are not yet in staging memory.
  ByteLedger waiting;
  // Results that gRPC has not sent yet, some of them of calls that have ended.
  ByteLedger sending{std::numeric_limits<std::int64_t>::max()};
  // Last: what they still run at the end uses the rest. Two, so that no copy waits behind a merge,
  // which takes longer.
  WorkQueue copies{4};
  WorkQueue merges{2};
};

// Takes `bytes` of `state.waiting`. InvalidArgument if they are more than it can ever hold; else,
// while there is no room, counts the refusal and returns ResourceExhausted with a retry delay.
absl::StatusOr<ByteLedger::Lease> TakeWaiting(RpcState& state, std::int64_t bytes);

}  // namespace attnd
