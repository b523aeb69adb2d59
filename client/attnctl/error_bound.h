// How far a result may be from float64: docs/numerics.md, "Error".
#pragma once

#include "client/attnctl/host_problem.h"
#include "client/attnctl/local_attention.h"

namespace attnd::attnctl {

struct ErrorBounds {
  double out = 0;
  double lse = 0;
  double probs = 0;
};

// For each tensor: twice the largest error of the standard un-fused computation in the problem's
// dtype (scores, softmax and out each computed in float32 and rounded to that dtype), and the
// rounding of the tensor's type at its largest value. `exact` is the float64 result, with lse and
// probs.
ErrorBounds BoundsFor(const HostProblem& problem, const LocalResult& exact);

}  // namespace attnd::attnctl
