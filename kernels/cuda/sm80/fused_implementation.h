// The fused sm_80 kernel as the registry sees it.
#pragma once

#include "kernels/kernel_registry.h"

namespace attnd::cuda::sm80 {

// Algorithm "fused": float16 and bfloat16, any head_dim and head_dim_v, all options but probs.
// Every row of q, k, v and out has to start at a multiple of 16 bytes.
KernelImplementation FusedImplementation();

}  // namespace attnd::cuda::sm80
