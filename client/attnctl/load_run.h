// A load on a server: callers that each send one request after another.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attnd/client.h"
#include "client/attnctl/host_problem.h"

namespace attnd::attnctl {

// Where the time of one call went.
struct CallSeconds {
  double total = 0;  // as the caller saw it
  double queue = 0;
  double copy_in = 0;
  double compute = 0;
  double copy_out = 0;

  // Network, gRPC and whatever the server does beside those stages.
  double rest() const { return total - queue - copy_in - compute - copy_out; }
};

struct LoadOptions {
  std::int64_t concurrency = 1;  // callers, each with a connection of its own
  absl::Duration duration = absl::Seconds(10);
  std::int64_t max_requests = 0;     // stop after so many; 0: after `duration` only
  std::int64_t warmup_requests = 3;  // of each caller, not counted; at least one is made
  CallOptions call = {};
};

struct LoadResult {
  std::vector<CallSeconds> calls;
  double seconds = 0;  // from the first counted request to the end of the last
  std::int64_t failed = 0;
  absl::Status first_error;
  std::string kernel;
  std::int64_t result_bytes = 0;  // of one answer
};

using ConnectFunction = std::function<absl::StatusOr<std::unique_ptr<Client>>()>;
using ProgressFunction = std::function<void(std::int64_t calls, double seconds)>;

// Runs until the time or the number of requests is over. `connect` makes a caller's client;
// `progress` is called about once a second with the number of calls done and the seconds gone.
// Fails if a caller cannot connect or its warm-up fails; calls that fail later are counted.
absl::StatusOr<LoadResult> RunLoad(const LoadOptions& options, const HostProblem& problem,
                                   const ConnectFunction& connect,
                                   const ProgressFunction& progress);

// The smallest value that at least the share `p` of `sorted` does not exceed; 0 for none.
double Percentile(const std::vector<double>& sorted, double p);

}  // namespace attnd::attnctl
