#include "tests/testing/unfused_baseline.h"

#include <cmath>

#include "kernels/attention_score.h"
#include "kernels/online_softmax.h"

namespace attnd::testing {
namespace {

float Round(DataType dtype, float value) {
  switch (dtype) {
    case DataType::kFloat32:
      return value;
    case DataType::kFloat16:
      return Float16ToFloat(FloatToFloat16(value));
    case DataType::kBFloat16:
      return BFloat16ToFloat(FloatToBFloat16(value));
  }
  return value;
}

// Row (row, head) of a tensor, widened.
std::vector<float> Load(const TensorView& view, std::int64_t batch, std::int64_t begin,
                        std::int64_t row, std::int64_t head) {
  std::vector<float> values(view.dim);
  const std::int64_t offset = RowOffset(view, batch, begin, row, head);
  for (std::int64_t d = 0; d < view.dim; ++d) {
    values[d] = LoadElement(view.data, view.dtype, offset + d);
  }
  return values;
}

std::vector<float> Scores(const AttentionParams& p, const SequenceBounds& s, std::int64_t b,
                          std::int64_t head, std::int64_t row) {
  const RowScorer scorer = MakeRowScorer(p, s, b, head, row);
  const std::vector<float> q = Load(p.q, s.q_batch, s.q_begin, row, head);
  std::vector<float> scores(s.seqlen_k, NegativeInfinity());
  for (std::int64_t j = scorer.keys.begin; j < scorer.keys.end; ++j) {
    if (!scorer.MaySee(j)) continue;
    const std::vector<float> k = Load(p.k, s.k_batch, s.k_begin, j, KvHeadOf(p, head));
    float dot = 0.0f;
    for (std::int64_t d = 0; d < p.head_dim; ++d) dot += q[d] * k[d];
    scores[j] = Round(p.q.dtype, scorer.Score(dot, j));
  }
  return scores;
}

}  // namespace

UnfusedRow ComputeUnfusedRow(const AttentionParams& p, std::int64_t b, std::int64_t head,
                             std::int64_t row) {
  const SequenceBounds s = BoundsOf(p, b);
  const std::vector<float> scores = Scores(p, s, b, head, row);
  const float sink = p.sinks != nullptr ? p.sinks[head] : NegativeInfinity();
  float largest = sink;
  for (float score : scores) largest = std::fmax(largest, score);
  float sum = sink == NegativeInfinity() ? 0.0f : std::exp(sink - largest);
  for (float score : scores) {
    if (score != NegativeInfinity()) sum += std::exp(score - largest);
  }

  UnfusedRow result;
  result.lse = SoftmaxState{largest, sum}.Lse();
  result.weights.resize(s.seqlen_k);
  result.out.resize(p.head_dim_v);
  for (std::int64_t j = 0; j < s.seqlen_k; ++j) {
    if (scores[j] == NegativeInfinity()) continue;
    result.weights[j] = Round(p.q.dtype, std::exp(scores[j] - largest) / sum);
    const std::vector<float> v = Load(p.v, s.k_batch, s.k_begin, j, KvHeadOf(p, head));
    for (std::int64_t d = 0; d < p.head_dim_v; ++d) result.out[d] += result.weights[j] * v[d];
  }
  for (float& value : result.out) value = Round(p.out.dtype, value);
  return result;
}

}  // namespace attnd::testing
