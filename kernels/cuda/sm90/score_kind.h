// What happens to a score between its product and the softmax. A matter of the request alone, never
// of its batch: the kinds round differently.
#pragma once

#include "kernels/attention_params.h"
#include "kernels/cuda/finished_scores.h"
#include "kernels/host_device.h"

namespace attnd::cuda::sm90 {

enum class ScoreKind {
  kRaw,       // nothing: the softmax takes raw products and scales them in the exponent
  kCapped,    // softcap alone: it takes raw products, too, and caps them in the exponent
  kFinished,  // any options: it takes finished scores
};

// Whether CappedUnit's coefficients, up to softcap * (softmax_scale / softcap)^9, and the squares
// of products that it takes are well within float32. Under a positive scale products order like
// scores.
ATTND_HOST_DEVICE bool ScalesInsideTheCap(const AttentionParams& p) {
  const float quotient = p.softmax_scale / p.softcap;
  return quotient >= 1e-4f && quotient <= 1e3f && p.softcap >= 1e-1f && p.softcap <= 1e6f;
}

ATTND_HOST_DEVICE ScoreKind ScoreKindOf(const AttentionParams& p) {
  if (p.mask.data != nullptr || p.bias.data != nullptr || p.alibi_slopes != nullptr)
    return ScoreKind::kFinished;
  if (p.softcap > 0.0f) return ScalesInsideTheCap(p) ? ScoreKind::kCapped : ScoreKind::kFinished;
  return NeedsFinishedScores(p) ? ScoreKind::kFinished : ScoreKind::kRaw;
}

}  // namespace attnd::cuda::sm90
