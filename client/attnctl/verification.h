// Whether a server computes a problem right.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/client.h"
#include "client/attnctl/comparison.h"
#include "client/attnctl/host_problem.h"

namespace attnd::attnctl {

struct TensorReport {
  std::string tensor;  // "out", "lse", "probs"
  std::vector<std::int64_t> shape;
  Comparison comparison;
};

struct VerificationReport {
  std::string kernel;
  std::vector<TensorReport> tensors;

  bool ok() const;
};

// Has the server compute `problem` and compares every tensor of the answer with float64, computed
// here. Errors are those of the call; InvalidArgument for a problem whose weights take more than 2
// GiB.
absl::StatusOr<VerificationReport> Verify(Client& client, const HostProblem& problem,
                                          const CallOptions& call);

}  // namespace attnd::attnctl
