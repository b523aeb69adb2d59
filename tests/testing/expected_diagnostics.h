// What the numerical-stability report of a problem must say.
#pragma once

#include "kernels/diagnostics.h"
#include "tests/testing/problem.h"

namespace attnd::testing {

// The figures but the non-finite counts, from the weights and lse of the float64 reference:
// score = ln(weight) + lse. Finite inputs only, and no weight so small that float64 has none.
AttentionDiagnostics ExpectedDiagnostics(Problem& problem);

}  // namespace attnd::testing
