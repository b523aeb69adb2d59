// The founding generations as the registry sees them.
#pragma once

#include "kernels/kernel_registry.h"

namespace attnd::cuda {

// Algorithms "naive", "two_pass" and "online": all dtypes, strides and options; probs from naive
// only.
KernelImplementation NaiveImplementation();
KernelImplementation TwoPassImplementation();
KernelImplementation OnlineImplementation();

}  // namespace attnd::cuda
