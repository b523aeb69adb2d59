// How far a result may be from float64: docs/numerics.md, "Error".
#pragma once

#include "absl/status/statusor.h"
#include "client/attnctl/host_problem.h"
#include "client/attnctl/local_attention.h"

namespace attnd::attnctl {

struct ErrorBounds {
  double out = 0;
  double lse = 0;
  double probs = 0;
};

// For each tensor: twice the largest error of the standard un-fused computation in the problem's
// dtype, and the rounding of the tensor's type at its largest value. The un-fused computation
// rounds scores, weights and results to that dtype; in float32, where its error comes from sums
// instead, it is the "naive" kernel. `exact` is the float64 result, with lse and probs.
absl::StatusOr<ErrorBounds> BoundsFor(const HostProblem& problem, const LocalResult& exact);

}  // namespace attnd::attnctl
