// The fused float32 kernel as the registry sees it.
#pragma once

#include "kernels/kernel_registry.h"

namespace attnd::cuda::simt {

// Algorithm "fused": float32, any head_dim and head_dim_v, any strides, all options but probs.
KernelImplementation FusedImplementation();

}  // namespace attnd::cuda::simt
