// The first founding generation: scores, then maximum and sum, then values, as three passes with
// the whole score matrix in memory. Kept as the measured baseline of what the later ones avoid.
#pragma once

#include "kernels/kernel_registry.h"

namespace attnd::cpu {

// Algorithm "naive". All options, types and outputs. Needs a workspace of
// 4 * batch_size * num_heads * seqlen_q * (seqlen_k + 2) bytes.
KernelImplementation NaiveImplementation();

}  // namespace attnd::cpu
