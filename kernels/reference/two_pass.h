// The second founding generation: maximum and sum of a row in the first pass over the keys, weights
// and values in the second. Scores are computed twice and never stored.
#pragma once

#include "kernels/kernel_registry.h"

namespace attnd::cpu {

// Algorithm "two_pass". All options, types and outputs.
KernelImplementation TwoPassImplementation();

}  // namespace attnd::cpu
