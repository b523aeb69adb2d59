#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/attnctl/command.h"
#include "client/attnctl/element_types.h"
#include "client/attnctl/npy_problem.h"
#include "client/attnctl/spec_flags.h"
#include "client/attnctl/verification.h"
#include "client/attnctl/verify_cases.h"

namespace attnd::attnctl {
namespace {

void PrintHeading() {
  std::cout << absl::StreamFormat("%-20s %-9s %-20s %-6s %10s %10s %10s %8s\n", "case", "dtype",
                                  "kernel", "tensor", "max abs", "max rel", "bound", "passed");
}

// Tries problems and counts what became of them. A kernel that was asked for by name and does not
// support a problem is no failure; a server that chooses for itself has to find one that does.
class Verifier {
 public:
  Verifier(Client& client, const CallOptions& call) : client_(client), call_(call) {}

  void Try(const std::string& name, const HostProblem& problem) {
    ++tried_;
    const absl::StatusOr<VerificationReport> report = Verify(client_, problem, call_);
    if (!report.ok()) {
      const bool unsupported = absl::IsUnimplemented(report.status()) &&
                               problem.spec.algorithm() != v1::ALGORITHM_UNSPECIFIED;
      (unsupported ? unsupported_ : failed_) += 1;
      std::cout << absl::StreamFormat("%-20s %-9s %s: %s\n", name, NameOf(problem.spec.dtype()),
                                      unsupported ? "not supported" : "FAILED",
                                      report.status().ToString());
      return;
    }
    for (const TensorReport& tensor : report->tensors) {
      PrintLine(name, problem.spec.dtype(), report->kernel, tensor);
    }
    failed_ += !report->ok();
  }

  ExitCode Finish() const {
    const int passed = tried_ - failed_ - unsupported_;
    std::cout << absl::StreamFormat("%d of %d problems passed", passed, tried_);
    if (unsupported_ > 0) std::cout << absl::StreamFormat(", %d not supported", unsupported_);
    std::cout << "\n";
    return failed_ == 0 && passed > 0 ? kSuccess : kFailed;
  }

 private:
  static void PrintLine(const std::string& name, v1::DataType dtype, const std::string& kernel,
                        const TensorReport& tensor) {
    const Comparison& c = tensor.comparison;
    const double share =
        c.elements == 0 ? 100.0
                        : 100.0 * static_cast<double>(c.passed) / static_cast<double>(c.elements);
    std::cout << absl::StreamFormat("%-20s %-9s %-20s %-6s %10.3g %10.3g %10.3g %7.3f%%\n", name,
                                    NameOf(dtype), kernel, tensor.tensor, c.max_absolute_error,
                                    c.max_relative_error, c.bound, share);
    if (c.ok()) return;
    std::cout << absl::StreamFormat("  FAILED: %s%s is %.9g, exactly %.9g\n", tensor.tensor,
                                    Position(c.worst, tensor.shape), c.worst_actual, c.worst_exact);
  }

  Client& client_;
  const CallOptions call_;
  int tried_ = 0;
  int failed_ = 0;
  int unsupported_ = 0;
};

// Which of the built-in problems to try.
struct Selection {
  std::vector<std::string> dtypes = {"float32", "float16", "bfloat16"};
  std::string cases;  // part of a case's name
  std::int64_t seed = 1;
};

absl::StatusOr<std::vector<v1::DataType>> ParseTypes(const std::vector<std::string>& names) {
  std::vector<v1::DataType> dtypes;
  for (const std::string& name : names) {
    const auto dtype = DataTypeFromName(name);
    if (!dtype.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--dtypes: ", dtype.status().message()));
    }
    dtypes.push_back(*dtype);
  }
  return dtypes;
}

void TryCases(const Selection& selection, const std::vector<v1::DataType>& dtypes,
              v1::Algorithm algorithm, Verifier& verifier) {
  auto seed = static_cast<std::uint64_t>(selection.seed);
  for (VerifyCase& verify_case : VerifyCases()) {
    if (!absl::StrContains(verify_case.name, selection.cases)) continue;
    for (const v1::DataType dtype : dtypes) {
      verify_case.spec.set_dtype(dtype);
      verify_case.spec.set_algorithm(algorithm);
      verifier.Try(verify_case.name, RandomProblem(verify_case.spec, seed++));
    }
  }
}

}  // namespace

ExitCode RunVerify(Arguments arguments) {
  ServerFlags server;
  NpyPaths inputs;
  OptionFlags options;
  Selection selection;
  FlagSet flags(
      "verify [flags]",
      "Compares a server's results with float64 computed here: for built-in problems with\n"
      "random tensors, or for the arrays in --q, --k and --v with the options given. Built-in\n"
      "problems heed --algorithm alone of those options.");
  flags.Add("dtypes", "TYPE,...", "types of the built-in problems (default all)",
            &selection.dtypes);
  flags.Add("cases", "TEXT", "only built-in problems whose name contains it", &selection.cases);
  flags.Add("seed", "N", "of the first built-in problem's tensors (default 1)", &selection.seed);
  inputs.AddTo(flags);
  options.AddTo(flags);
  server.AddTo(flags);
  if (const auto exit = ParseArguments(flags, arguments)) return *exit;
  const auto call = server.ToCallOptions();
  if (!call.ok()) return UsageError(call.status());
  auto spec = options.ToSpec();
  if (!spec.ok()) return UsageError(spec.status());
  const auto dtypes = ParseTypes(selection.dtypes);
  if (!dtypes.ok()) return UsageError(dtypes.status());
  const bool own_files = inputs.any();
  if (own_files && (inputs.q.empty() || inputs.k.empty() || inputs.v.empty())) {
    return UsageError(absl::InvalidArgumentError("--q, --k and --v are needed together"));
  }

  absl::StatusOr<HostProblem> own_problem;
  if (own_files) {
    spec->set_return_lse(true);
    own_problem = LoadProblem(inputs, *spec);
    if (!own_problem.ok()) return Failure(own_problem.status());
  }
  const auto client = server.Connect();
  if (!client.ok()) return Failure(client.status());
  Verifier verifier(**client, *call);
  PrintHeading();
  if (own_files) {
    verifier.Try("files", *own_problem);
  } else {
    TryCases(selection, *dtypes, spec->algorithm(), verifier);
  }
  return verifier.Finish();
}

}  // namespace attnd::attnctl
