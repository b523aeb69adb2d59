// The CPU's fused attention: tiled online softmax, SIMD chosen at run time.
#pragma once

#include "kernels/kernel_registry.h"

namespace attnd::cpu {

// out = softmax(scores) v and lse in one pass over k and v (FlashAttention-2, Dao 2023, algorithm
// 1), for every option of AttentionParams but probs; float32, float16 and bfloat16, computed in
// float32. Tasks over (sequence, key/value head, query rows) run through context.parallel_for; few
// query rows against many keys are split over the keys too, at fixed places, and merged in order.
//
// Results depend on a sequence's own shape, head dims and options, not on the batch, threads,
// strides or alignment. A masked or padding key reaches no row, whatever its values. Beside the
// workspace, each thread that runs tasks keeps scratch memory of at most 0.7 MB (scratch.h).
KernelImplementation FusedImplementation();

}  // namespace attnd::cpu
