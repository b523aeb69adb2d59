#include "server/rpc/server_timing.h"

#include "absl/strings/str_format.h"

namespace attnd {

v1::Timings MakeTimings(const JobSeconds& job, double copy_seconds, double total_seconds) {
  v1::Timings timings;
  timings.set_queue_seconds(job.queue);
  timings.set_copy_in_seconds(copy_seconds + job.stages.copy_in);
  timings.set_compute_seconds(job.stages.compute);
  timings.set_copy_out_seconds(job.stages.copy_out);
  timings.set_total_seconds(total_seconds);
  return timings;
}

void AddServerTiming(grpc::ServerContextBase* context, const v1::Timings& timings) {
  constexpr double kMilliseconds = 1e3;
  context->AddTrailingMetadata(
      kServerTimingKey,
      absl::StrFormat(
          "queue;dur=%.3f, copy_in;dur=%.3f, compute;dur=%.3f, copy_out;dur=%.3f, total;dur=%.3f",
          timings.queue_seconds() * kMilliseconds, timings.copy_in_seconds() * kMilliseconds,
          timings.compute_seconds() * kMilliseconds, timings.copy_out_seconds() * kMilliseconds,
          timings.total_seconds() * kMilliseconds));
}

}  // namespace attnd
