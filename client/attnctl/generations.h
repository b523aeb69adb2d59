// The ladder of attention's generations on one problem: naive, two_pass, online, fused.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/client.h"
#include "client/attnctl/host_problem.h"

namespace attnd::attnctl {

struct Generation {
  v1::Algorithm algorithm = v1::ALGORITHM_UNSPECIFIED;
  absl::Status status;  // of its calls; the rest is set if it is OK
  std::string kernel;
  double compute_seconds = 0;     // median, as the server reports it
  double round_trip_seconds = 0;  // median
  double max_absolute_error = 0;  // of out against float64; NaN if not asked for
};

struct GenerationsOptions {
  std::int64_t repeats = 5;  // after one call that is not counted
  bool error = true;         // compute float64 here and compare
  CallOptions call;
};

// Runs every generation in turn. An algorithm that the server lacks has its status; fails only if
// the exact result cannot be computed here.
absl::StatusOr<std::vector<Generation>> RunGenerations(Client& client, const HostProblem& problem,
                                                       const GenerationsOptions& options);

// Bytes that a generation reads and writes in device memory by its definition: with each pass over
// k and v counted once, as if caches served all rows together. n is batch_size * num_heads *
// seqlen_q * seqlen_k; scores and weights are float32.
//   naive:          q + k + v + out + 16 n   (scores written and read, weights written and read)
//   two_pass:       q + 2 k + v + out        (every score computed twice)
//   online, fused:  q + k + v + out
double MemoryTraffic(const v1::AttentionSpec& spec, v1::Algorithm algorithm);

// Device memory by definition: q, k, v, out and lse, for naive another 4 n bytes and 8 bytes a row.
// The API does not report what a server really had in use.
double PeakMemory(const v1::AttentionSpec& spec, v1::Algorithm algorithm);

// The ladder as a table, with what is measured and what is by definition told apart.
std::string GenerationsTable(const std::vector<Generation>& generations,
                             const v1::AttentionSpec& spec);

}  // namespace attnd::attnctl
