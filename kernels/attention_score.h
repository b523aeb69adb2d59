// From a dot product to a finished score, and which keys a row may see: the rules of
// AttentionParams for one query row, once, for host and device.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/attention_mask.h"
#include "kernels/attention_params.h"
#include "kernels/host_device.h"
#include "kernels/sequence_bounds.h"

namespace attnd {

// One query row of one head of one sequence. Refers to the memory of the AttentionParams it was
// made from.
struct RowScorer {
  KeyRange keys;                       // the keys inside the length and the causal / window band
  const std::uint8_t* mask = nullptr;  // the row of the boolean mask; nullptr: all may be seen
  const void* bias = nullptr;
  DataType bias_dtype = DataType::kFloat32;
  std::int64_t bias_offset = 0;  // element of `bias` that belongs to key 0
  float softmax_scale = 1.0f;
  float softcap = 0.0f;
  float alibi_slope = 0.0f;
  std::int64_t position = 0;  // of the row among the keys

  // Whether the row may attend to key j, for j in `keys`. A key it may not see must not be read for
  // it.
  ATTND_HOST_DEVICE bool MaySee(std::int64_t j) const { return mask == nullptr || mask[j] != 0; }

  // The finished score of key j from the dot product q . k_j.
  ATTND_HOST_DEVICE float Score(float dot, std::int64_t j) const {
    float score = softmax_scale * dot;
    if (softcap > 0.0f) score = softcap * tanhf(score / softcap);
    if (bias != nullptr) score += LoadElement(bias, bias_dtype, bias_offset + j);
    if (alibi_slope != 0.0f) {
      const std::int64_t distance = position < j ? j - position : position - j;
      score -= alibi_slope * static_cast<float>(distance);
    }
    return score;
  }
};

// The scorer of row `row` (of the sequence's own rows) of query head `head` of sequence `b`, whose
// bounds are `s`.
ATTND_HOST_DEVICE RowScorer MakeRowScorer(const AttentionParams& p, const SequenceBounds& s,
                                          std::int64_t b, std::int64_t head, std::int64_t row) {
  RowScorer scorer;
  scorer.keys = VisibleKeys(row, s.seqlen_q, s.seqlen_k, p.causal, p.window_left, p.window_right);
  if (p.mask.data != nullptr) scorer.mask = p.mask.data + ScoreOffset(p.mask, b, head, row);
  if (p.bias.data != nullptr) {
    scorer.bias = p.bias.data;
    scorer.bias_dtype = p.bias.dtype;
    scorer.bias_offset = ScoreOffset(p.bias, b, head, row);
  }
  scorer.softmax_scale = p.softmax_scale;
  scorer.softcap = p.softcap;
  if (p.alibi_slopes != nullptr)
    scorer.alibi_slope = p.alibi_slopes[b * p.alibi_batch_stride + head];
  scorer.position = row + s.seqlen_k - s.seqlen_q;
  return scorer;
}

}  // namespace attnd
