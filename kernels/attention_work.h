// How much work a problem is.
#pragma once

#include "kernels/attention_params.h"

namespace attnd {

// Pairs of a query row and a key that it sees inside its sequence's lengths, the causal rule and
// the window, over all sequences, of one head. A boolean mask is not looked at. cu_seqlens_* and
// lengths_* of `p`, where it has them, lie in host memory.
double VisiblePairs(const AttentionParams& p);

// Floating-point operations of the two matrix products over those pairs and all heads, counting a
// multiply-add as two.
double VisibleFlops(const AttentionParams& p);

// How long the fused kernel takes on the CPU, in floating-point operations of its products:
// AttentionFlops, and what rows cost however few keys they have, which the operations of a problem
// without keys would not tell.
double AttentionCost(const AttentionParams& p);

}  // namespace attnd
