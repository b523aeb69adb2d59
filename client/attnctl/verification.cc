#include "client/attnctl/verification.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/attnctl/element_types.h"
#include "client/attnctl/error_bound.h"
#include "client/attnctl/local_attention.h"

namespace attnd::attnctl {
namespace {

constexpr double kLargestProbsBytes = 0x1p31;

absl::Status CheckSize(const v1::AttentionSpec& spec) {
  double bytes = sizeof(float);
  for (const std::int64_t size : ProbsShape(spec)) bytes *= static_cast<double>(size);
  if (bytes <= kLargestProbsBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the exact weights take ", bytes / 0x1p30,
                   " GiB, at most 2 accepted; verify fewer heads or shorter sequences"));
}

}  // namespace

bool VerificationReport::ok() const {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const TensorReport& report) { return report.comparison.ok(); });
}

absl::StatusOr<VerificationReport> Verify(Client& client, const HostProblem& problem,
                                          const CallOptions& call) {
  const v1::AttentionSpec& spec = problem.spec;
  // The server goes first: it checks the spec, which the local computation relies on.
  const absl::StatusOr<AttendReply> reply = client.Attend(spec, problem.inputs(), call);
  if (!reply.ok()) return reply.status();
  if (absl::Status status = CheckSize(spec); !status.ok()) return status;
  const absl::StatusOr<LocalResult> exact = ComputeLocally(problem, {.probs = true});
  if (!exact.ok()) return exact.status();
  const ErrorBounds bounds = BoundsFor(problem, *exact);

  VerificationReport report{.kernel = reply->result.kernel(), .tensors = {}};
  const std::vector<float> out = Widen(reply->result.out_dtype(), reply->out.bytes());
  report.tensors.push_back({"out", OutShape(spec), Compare(out, exact->out, bounds.out)});
  if (spec.return_lse() || spec.return_partial()) {
    report.tensors.push_back(
        {"lse", LseShape(spec), Compare(reply->lse.As<float>(), exact->lse, bounds.lse)});
  }
  if (spec.return_probs()) {
    report.tensors.push_back(
        {"probs", ProbsShape(spec), Compare(reply->probs.As<float>(), exact->probs, bounds.probs)});
  }
  return report;
}

}  // namespace attnd::attnctl
