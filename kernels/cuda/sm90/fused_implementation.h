// The Hopper kernel as the registry sees it.
#pragma once

#include "kernels/kernel_registry.h"

namespace attnd::cuda::sm90 {

// Algorithm "fused": float16 and bfloat16, compute capability 9.0 alone, all options but probs.
// head_dim 64, 96, 128, 192 or 256 with head_dim_v the same, or 192 with 128. Every row of q, k, v
// and out has to start at a multiple of 16 bytes, and no dimension of q, k or v longer than 1 may
// have stride 0.
KernelImplementation FusedImplementation();

}  // namespace attnd::cuda::sm90
