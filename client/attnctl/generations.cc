#include "client/attnctl/generations.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/str_format.h"
#include "client/attnctl/comparison.h"
#include "client/attnctl/element_types.h"
#include "client/attnctl/load_run.h"
#include "client/attnctl/local_attention.h"
#include "client/attnctl/spec_flags.h"

namespace attnd::attnctl {
namespace {

constexpr v1::Algorithm kGenerations[] = {v1::ALGORITHM_NAIVE, v1::ALGORITHM_TWO_PASS,
                                          v1::ALGORITHM_ONLINE, v1::ALGORITHM_FUSED};

// Sizes in bytes of the tensors of a problem, and the number of its scores and rows.
struct Volumes {
  explicit Volumes(const v1::AttentionSpec& spec) {
    const ProblemSizes sizes(spec);
    const auto in = static_cast<double>(BytesOf(spec.dtype()));
    const auto rows_q = static_cast<double>(sizes.rows_q * spec.num_heads());
    const auto rows_k = static_cast<double>(sizes.rows_k * sizes.num_kv_heads);
    q = rows_q * static_cast<double>(spec.head_dim()) * in;
    k = rows_k * static_cast<double>(spec.head_dim()) * in;
    v = rows_k * static_cast<double>(sizes.head_dim_v) * in;
    out = rows_q * static_cast<double>(sizes.head_dim_v) *
          static_cast<double>(BytesOf(sizes.out_dtype));
    rows = rows_q;
    scores = static_cast<double>(spec.batch_size() * spec.num_heads()) *
             static_cast<double>(sizes.seqlen_q) * static_cast<double>(sizes.seqlen_k);
  }

  double q, k, v, out, rows, scores;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return Percentile(values, 0.5);
}

Generation RunGeneration(Client& client, HostProblem& problem, v1::Algorithm algorithm,
                         const GenerationsOptions& options,
                         const std::optional<LocalResult>& exact) {
  Generation generation{.algorithm = algorithm,
                        .status = {},
                        .kernel = {},
                        .max_absolute_error = std::numeric_limits<double>::quiet_NaN()};
  problem.spec.set_algorithm(algorithm);
  std::vector<double> compute;
  std::vector<double> round_trip;
  for (std::int64_t i = 0; i <= options.repeats; ++i) {
    const absl::StatusOr<AttendReply> reply =
        client.Attend(problem.spec, problem.inputs(), options.call);
    if (!reply.ok()) {
      generation.status = reply.status();
      return generation;
    }
    if (i == 0) {
      generation.kernel = reply->result.kernel();
      if (!exact.has_value()) continue;
      const std::vector<float> out = Widen(reply->result.out_dtype(), reply->out.bytes());
      generation.max_absolute_error = Compare(out, exact->out, 0).max_absolute_error;
      continue;
    }
    compute.push_back(reply->result.timings().compute_seconds());
    round_trip.push_back(reply->round_trip_seconds);
  }
  generation.compute_seconds = Median(std::move(compute));
  generation.round_trip_seconds = Median(std::move(round_trip));
  return generation;
}

}  // namespace

absl::StatusOr<std::vector<Generation>> RunGenerations(Client& client, const HostProblem& problem,
                                                       const GenerationsOptions& options) {
  std::optional<LocalResult> exact;
  if (options.error) {
    absl::StatusOr<LocalResult> result = ComputeLocally(problem, {});
    if (!result.ok()) return result.status();
    exact = *std::move(result);
  }
  HostProblem attempt = problem;
  std::vector<Generation> generations;
  for (const v1::Algorithm algorithm : kGenerations) {
    generations.push_back(RunGeneration(client, attempt, algorithm, options, exact));
  }
  return generations;
}

double MemoryTraffic(const v1::AttentionSpec& spec, v1::Algorithm algorithm) {
  const Volumes volumes(spec);
  const double once = volumes.q + volumes.k + volumes.v + volumes.out;
  if (algorithm == v1::ALGORITHM_NAIVE) return once + 16 * volumes.scores;
  if (algorithm == v1::ALGORITHM_TWO_PASS) return once + volumes.k;
  return once;
}

double PeakMemory(const v1::AttentionSpec& spec, v1::Algorithm algorithm) {
  const Volumes volumes(spec);
  const double tensors = volumes.q + volumes.k + volumes.v + volumes.out + 4 * volumes.rows;
  if (algorithm == v1::ALGORITHM_NAIVE) return tensors + 4 * volumes.scores + 8 * volumes.rows;
  return tensors;
}

std::string GenerationsTable(const std::vector<Generation>& generations,
                             const v1::AttentionSpec& spec) {
  std::string table =
      absl::StrFormat("%-10s %-24s %12s %12s %12s %12s %12s %10s\n", "algorithm", "kernel",
                      "compute ms", "GFLOP/s", "call ms", "traffic MiB", "memory MiB", "max error");
  const double gigaflops = AttentionFlops(spec) / 1e9;
  for (const Generation& generation : generations) {
    absl::StrAppendFormat(&table, "%-10s ", NameOf(generation.algorithm));
    if (!generation.status.ok()) {
      absl::StrAppendFormat(&table, "%s\n", generation.status.message());
      continue;
    }
    absl::StrAppendFormat(
        &table, "%-24s %12.3f %12.1f %12.3f %12.1f %12.1f %10.3g\n", generation.kernel,
        generation.compute_seconds * 1e3, gigaflops / generation.compute_seconds,
        generation.round_trip_seconds * 1e3, MemoryTraffic(spec, generation.algorithm) / 0x1p20,
        PeakMemory(spec, generation.algorithm) / 0x1p20, generation.max_absolute_error);
  }
  absl::StrAppend(
      &table,
      "compute, call: medians measured; max error: against float64; traffic, memory: by "
      "each generation's definition (docs/clients.md)\n");
  return table;
}

}  // namespace attnd::attnctl
