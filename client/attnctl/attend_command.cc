#include <iostream>

#include "absl/strings/str_format.h"
#include "client/attnctl/command.h"
#include "client/attnctl/npy_problem.h"
#include "client/attnctl/result_files.h"
#include "client/attnctl/spec_flags.h"

namespace attnd::attnctl {
namespace {

void PrintSummary(const AttendReply& reply) {
  const v1::Timings& timings = reply.result.timings();
  std::cerr << absl::StreamFormat(
      "%s: %.3f ms (queue %.3f, copy in %.3f, compute %.3f, copy out %.3f)%s\n",
      reply.result.kernel(), reply.round_trip_seconds * 1e3, timings.queue_seconds() * 1e3,
      timings.copy_in_seconds() * 1e3, timings.compute_seconds() * 1e3,
      timings.copy_out_seconds() * 1e3, reply.streamed ? ", streamed" : "");
  if (reply.result.has_diagnostics()) std::cout << reply.result.diagnostics().DebugString();
}

}  // namespace

ExitCode RunAttend(Arguments arguments) {
  ServerFlags server;
  NpyPaths inputs;
  OptionFlags options;
  ResultPaths results;
  bool partial = false;
  bool diagnostics = false;
  FlagSet flags("attend --q FILE --k FILE --v FILE --out FILE [flags]",
                "Computes attention over arrays in .npy files.");
  inputs.AddTo(flags);
  results.AddTo(flags);
  flags.Add("partial", "", "compute a partial result, for merging; with --lse", &partial);
  flags.Add("diagnostics", "", "print ranges and non-finite counts", &diagnostics);
  options.AddTo(flags);
  server.AddTo(flags);
  if (const auto exit = ParseArguments(flags, arguments)) return *exit;
  if (inputs.q.empty() || inputs.k.empty() || inputs.v.empty() || results.out.empty()) {
    return UsageError(absl::InvalidArgumentError("--q, --k, --v and --out are needed"));
  }
  if (partial && results.lse.empty()) {
    return UsageError(absl::InvalidArgumentError(
        "--partial: --lse is needed, too; partial results are merged by their log-sum-exp"));
  }
  if (absl::Status status = CheckDistinct(results); !status.ok()) return UsageError(status);
  const auto call = server.ToCallOptions();
  if (!call.ok()) return UsageError(call.status());
  auto spec = options.ToSpec();
  if (!spec.ok()) return UsageError(spec.status());
  spec->set_return_lse(!results.lse.empty());
  spec->set_return_probs(!results.probs.empty());
  spec->set_return_partial(partial);
  spec->set_return_diagnostics(diagnostics);

  const auto problem = LoadProblem(inputs, *spec);
  if (!problem.ok()) return Failure(problem.status());
  if (absl::Status status = CheckWritable(results); !status.ok()) return Failure(status);
  const auto client = server.Connect();
  if (!client.ok()) return Failure(client.status());
  const auto reply = (*client)->Attend(problem->spec, problem->inputs(), *call);
  if (!reply.ok()) return Failure(reply.status());
  if (absl::Status status = SaveResult(results, problem->spec, *reply); !status.ok()) {
    return Failure(status);
  }
  PrintSummary(*reply);
  return kSuccess;
}

}  // namespace attnd::attnctl
