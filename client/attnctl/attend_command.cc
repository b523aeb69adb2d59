#include <iostream>

#include "absl/strings/str_format.h"
#include "client/attnctl/command.h"
#include "client/attnctl/npy_problem.h"
#include "client/attnctl/spec_flags.h"

namespace attnd::attnctl {
namespace {

// Where the tensors of a result are written; empty: nowhere.
struct ResultPaths {
  std::string out;
  std::string lse;
  std::string probs;
};

absl::Status Save(const ResultPaths& paths, const v1::AttentionSpec& spec,
                  const AttendReply& reply) {
  absl::Status status =
      SaveTensor(paths.out, reply.result.out_dtype(), OutShape(spec), reply.out.bytes());
  if (status.ok() && !paths.lse.empty()) {
    status = SaveTensor(paths.lse, v1::DATA_TYPE_FLOAT32, LseShape(spec), reply.lse.bytes());
  }
  if (status.ok() && !paths.probs.empty()) {
    status = SaveTensor(paths.probs, v1::DATA_TYPE_FLOAT32, ProbsShape(spec), reply.probs.bytes());
  }
  return status;
}

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
  flags.Add("out", "FILE", "where the result goes, .npy", &results.out);
  flags.Add("lse", "FILE", "where the log-sum-exp goes, .npy float32", &results.lse);
  flags.Add("probs", "FILE", "where the weights go, .npy float32 (small problems)", &results.probs);
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
  const auto client = server.Connect();
  if (!client.ok()) return Failure(client.status());
  const auto reply = (*client)->Attend(problem->spec, problem->inputs(), *call);
  if (!reply.ok()) return Failure(reply.status());
  if (absl::Status status = Save(results, problem->spec, *reply); !status.ok()) {
    return Failure(status);
  }
  PrintSummary(*reply);
  return kSuccess;
}

}  // namespace attnd::attnctl
