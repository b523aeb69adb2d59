#include <iostream>

#include "absl/strings/str_format.h"
#include "client/attnctl/command.h"
#include "client/attnctl/generations.h"
#include "client/attnctl/load_report.h"
#include "client/attnctl/load_run.h"
#include "client/attnctl/spec_flags.h"

namespace attnd::attnctl {
namespace {

struct BenchFlags {
  ServerFlags server;
  SizeFlags sizes;
  OptionFlags options;
  LoadOptions load;
  std::int64_t seed = 1;
  bool json = false;
  bool generations = false;
  GenerationsOptions ladder;

  void AddTo(FlagSet& flags) {
    flags.Add("concurrency", "N", "callers, each with its own connection (default 1)",
              &load.concurrency);
    flags.Add("duration", "TIME", "how long to send requests (default 10s)", &load.duration);
    flags.Add("requests", "N", "stop after so many (default: by time alone)", &load.max_requests);
    flags.Add("warmup", "N", "requests of each caller that do not count (default 3)",
              &load.warmup_requests);
    flags.Add("json", "", "print the result as JSON", &json);
    flags.Add("generations", "", "compare naive, two_pass, online and fused instead", &generations);
    flags.Add("repeats", "N", "calls of each generation (default 5)", &ladder.repeats);
    flags.Add("error", "", "with --generations: compare with float64 (default true)",
              &ladder.error);
    flags.Add("seed", "N", "of the tensors (default 1)", &seed);
    sizes.AddTo(flags);
    options.AddTo(flags);
    server.AddTo(flags);
  }

  absl::StatusOr<v1::AttentionSpec> ToSpec() const {
    if (load.concurrency < 1 || load.concurrency > 1024) {
      return absl::InvalidArgumentError(
          absl::StrFormat("--concurrency: %d, 1 to 1024 accepted", load.concurrency));
    }
    if (load.max_requests < 0 || load.warmup_requests < 0 || ladder.repeats < 1) {
      return absl::InvalidArgumentError(
          "--requests and --warmup are at least 0, --repeats at least 1");
    }
    absl::StatusOr<v1::AttentionSpec> spec = options.ToSpec();
    if (!spec.ok()) return spec;
    if (!spec->cu_seqlens_q().empty() || !spec->cu_seqlens_k().empty()) {
      return absl::InvalidArgumentError("bench makes sequences of one length, not packed ones");
    }
    if (absl::Status status = sizes.ApplyTo(*spec); !status.ok()) return status;
    return spec;
  }
};

ExitCode PrintGenerations(const BenchFlags& flags, const HostProblem& problem) {
  const auto client = flags.server.Connect();
  if (!client.ok()) return Failure(client.status());
  const auto generations = RunGenerations(**client, problem, flags.ladder);
  if (!generations.ok()) return Failure(generations.status());
  std::cout << GenerationsTable(*generations, problem.spec);
  return kSuccess;
}

ExitCode PrintLoad(const BenchFlags& flags, const HostProblem& problem) {
  const auto connect = [&] { return flags.server.Connect(); };
  const auto progress = [](std::int64_t calls, double seconds) {
    std::cerr << absl::StreamFormat("%6.0f s  %d calls  %.1f calls/s\n", seconds, calls,
                                    static_cast<double>(calls) / seconds);
  };
  const auto result = RunLoad(flags.load, problem, connect, progress);
  if (!result.ok()) return Failure(result.status());
  std::cout << (flags.json ? LoadJson(*result, problem) : LoadTable(*result, problem));
  return result->failed == 0 ? kSuccess : Failure(result->first_error);
}

}  // namespace

ExitCode RunBench(Arguments arguments) {
  BenchFlags bench;
  FlagSet flags(
      "bench [flags]",
      "Sends one problem with random tensors over and over and tells where the time went.");
  bench.AddTo(flags);
  if (const auto exit = ParseArguments(flags, arguments)) return *exit;
  const auto call = bench.server.ToCallOptions();
  if (!call.ok()) return UsageError(call.status());
  bench.load.call = *call;
  bench.ladder.call = *call;
  const auto spec = bench.ToSpec();
  if (!spec.ok()) return UsageError(spec.status());

  const HostProblem problem = RandomProblem(*spec, static_cast<std::uint64_t>(bench.seed));
  return bench.generations ? PrintGenerations(bench, problem) : PrintLoad(bench, problem);
}

}  // namespace attnd::attnctl
