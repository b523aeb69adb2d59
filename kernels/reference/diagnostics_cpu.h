// The numerical-stability report on the CPU.
#pragma once

#include "kernels/diagnostics.h"

namespace attnd::cpu {

// RunDiagnostics on the host. Every figure is a minimum, a maximum or a count, so that the order in
// which threads add to it does not matter.
void ComputeDiagnostics(const AttentionParams& p, const ExecutionContext& context,
                        AttentionDiagnostics* result);

}  // namespace attnd::cpu
