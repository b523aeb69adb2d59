// The list of CPU implementations.
#pragma once

#include "absl/types/span.h"
#include "kernels/kernel_registry.h"

namespace attnd::cpu {

// Every CPU implementation, in order of preference within an algorithm.
absl::Span<const KernelImplementation> Implementations();

}  // namespace attnd::cpu
