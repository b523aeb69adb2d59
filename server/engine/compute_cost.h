// How long computing a plan takes on the CPU, before it is done.
#pragma once

#include "server/engine/attention_plan.h"

namespace attnd {

// In the unit of AttentionCost, 2e6 of which are some 50 us of one core: that of the fused kernel,
// times what other kernels take longer, and the pass of the diagnostics over scores and inputs.
double ComputeCost(const AttentionPlan& plan);

}  // namespace attnd
