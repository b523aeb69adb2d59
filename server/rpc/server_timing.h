// Where the time of a call went, as its reply tells it.
#pragma once

#include "attnd/v1/attention.pb.h"
#include "grpcpp/server_context.h"
#include "server/engine/engine.h"

namespace attnd {

// `copy_seconds` is the time that this layer took to copy the request's tensors out of its
// messages, `total_seconds` that of the call so far.
v1::Timings MakeTimings(const JobSeconds& job, double copy_seconds, double total_seconds);

// Trailing metadata that tells the same in milliseconds:
// "queue;dur=0.012, copy_in;dur=..., compute;dur=..., copy_out;dur=..., total;dur=..." (W3C Server
// Timing).
inline constexpr char kServerTimingKey[] = "server-timing";
void AddServerTiming(grpc::ServerContextBase* context, const v1::Timings& timings);

}  // namespace attnd
