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
  kMasked,    // a boolean mask alone: it takes raw products, those that the mask hides as -inf
  kSloped,    // ALiBi alone: it takes raw products and what distances make of them, block by block
  kFinished,  // other options without a mask: it takes finished scores
  kFinishedMasked,  // any options: finished scores, those that the mask hides as -inf
};
inline constexpr int kScoreKinds = 6;

// Whether the constants of CappedUnit, from about softcap * (softmax_scale / softcap)^9 to
// 7 * (softcap / softmax_scale)^4, and the squares of products that it takes are within float32 (or
// too small to matter). Under a positive scale products order like scores.
ATTND_HOST_DEVICE bool ScalesInsideTheCap(const AttentionParams& p) {
  const float quotient = p.softmax_scale / p.softcap;
  return quotient >= 1e-4f && quotient <= 1e3f && p.softcap >= 1e-1f && p.softcap <= 1e6f;
}

ATTND_HOST_DEVICE ScoreKind ScoreKindOf(const AttentionParams& p) {
  const bool masked = p.mask.data != nullptr;
  if (!NeedsFinishedScores(p)) return masked ? ScoreKind::kMasked : ScoreKind::kRaw;
  if (masked) return ScoreKind::kFinishedMasked;
  const bool alibi_alone =
      p.alibi_slopes != nullptr && p.bias.data == nullptr && !(p.softcap > 0.0f);
  if (alibi_alone && ScalesInsideExponent(p)) return ScoreKind::kSloped;
  const bool softcap_alone =
      p.softcap > 0.0f && p.bias.data == nullptr && p.alibi_slopes == nullptr;
  return softcap_alone && ScalesInsideTheCap(p) ? ScoreKind::kCapped : ScoreKind::kFinished;
}

}  // namespace attnd::cuda::sm90
