// Which problems the fused kernels of 16-bit types compute from finished scores, in natural units.
#pragma once

#include "kernels/attention_params.h"
#include "kernels/host_device.h"

namespace attnd::cuda {

// Up to this softmax_scale a kernel may keep raw products and scale them inside the exponent, in
// units of log2. docs/numerics.md, "Range", says from which scores on that is inexact.
inline constexpr float kLargestRawScale = 16.0f;

// Whether the scale may be left to the exponent: raw products order like scores only under a
// positive one.
ATTND_HOST_DEVICE bool ScalesInsideExponent(const AttentionParams& p) {
  return p.softmax_scale > 0.0f && p.softmax_scale <= kLargestRawScale;
}

// True if scores have to be finished before the softmax sees them: options act on scaled scores. A
// matter of the request alone, never of its batch: both ways round differently.
ATTND_HOST_DEVICE bool NeedsFinishedScores(const AttentionParams& p) {
  return p.softcap > 0.0f || p.bias.data != nullptr || p.alibi_slopes != nullptr ||
         !ScalesInsideExponent(p);
}

}  // namespace attnd::cuda
