// The third founding generation: one pass over the keys with a running maximum and sum (Milakov and
// Gimelshein 2018). No score is ever stored; k and v are read once per block of rows.
#pragma once

#include "kernels/kernel_registry.h"

namespace attnd::cpu {

// Algorithm "online". All options and types; no probs, since a weight is known only when the pass
// is over.
KernelImplementation OnlineImplementation();

}  // namespace attnd::cpu
