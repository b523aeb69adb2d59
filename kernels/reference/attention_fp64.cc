#include "kernels/reference/attention_fp64.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "kernels/data_type.h"
#include "kernels/sequence_bounds.h"

namespace attnd::cpu {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// One query row of one head of one sequence, as the formulas index it.
struct Row {
  const AttentionParams& p;
  SequenceBounds s;
  std::int64_t b;
  std::int64_t head;
  std::int64_t i;

  double Q(std::int64_t d) const {
    return LoadElement(p.q.data, p.q.dtype, RowOffset(p.q, s.q_batch, s.q_begin, i, head) + d);
  }
  double K(std::int64_t j, std::int64_t d) const {
    const std::int64_t kv_head = KvHeadOf(p, head);
    return LoadElement(p.k.data, p.k.dtype, RowOffset(p.k, s.k_batch, s.k_begin, j, kv_head) + d);
  }
  double V(std::int64_t j, std::int64_t d) const {
    const std::int64_t kv_head = KvHeadOf(p, head);
    return LoadElement(p.v.data, p.v.dtype, RowOffset(p.v, s.k_batch, s.k_begin, j, kv_head) + d);
  }
  // How far key j lies to the right of the row's own position; negative: to the left.
  std::int64_t Distance(std::int64_t j) const { return j - (i + s.seqlen_k - s.seqlen_q); }
};

bool MaySee(const Row& row, std::int64_t j) {
  const AttentionParams& p = row.p;
  const std::int64_t distance = row.Distance(j);
  if (p.causal && distance > 0) return false;
  if (p.window_left >= 0 && -distance > p.window_left) return false;
  if (p.window_right >= 0 && distance > p.window_right) return false;
  return p.mask.data == nullptr ||
         p.mask.data[ScoreOffset(p.mask, row.b, row.head, row.i) + j] != 0;
}

double Score(const Row& row, std::int64_t j) {
  const AttentionParams& p = row.p;
  double dot = 0.0;
  for (std::int64_t d = 0; d < p.head_dim; ++d) dot += row.Q(d) * row.K(j, d);
  double score = p.softmax_scale * dot;
  if (p.softcap > 0) score = p.softcap * std::tanh(score / p.softcap);
  if (p.bias.data != nullptr) {
    score +=
        LoadElement(p.bias.data, p.bias.dtype, ScoreOffset(p.bias, row.b, row.head, row.i) + j);
  }
  if (p.alibi_slopes != nullptr) {
    const double slope = p.alibi_slopes[row.b * p.alibi_batch_stride + row.head];
    score -= slope * static_cast<double>(std::abs(row.Distance(j)));
  }
  return score;
}

// The largest score, NaN left aside; it enters through the sum.
double Largest(const std::vector<double>& scores, double sink) {
  double largest = sink;
  for (double score : scores) largest = std::fmax(largest, score);
  return largest;
}

void StoreRow(const AttentionParams& p, std::int64_t b, std::int64_t head, std::int64_t row,
              const ReferenceRow& result) {
  const SequenceBounds s = BoundsOf(p, b);
  const std::int64_t offset = RowOffset(p.out, s.q_batch, s.q_begin, row, head);
  for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
    StoreElement(p.out.data, p.out.dtype, offset + d, static_cast<float>(result.out[d]));
  }
  if (p.lse != nullptr) p.lse[LseOffset(p, s, head, row)] = static_cast<float>(result.lse);
}

// One row of weights, 0 from the sequence's own length to the longest one.
void StoreProbs(const AttentionParams& p, std::int64_t b, std::int64_t head, std::int64_t row,
                const std::vector<double>& weights) {
  if (p.probs == nullptr) return;
  float* probs = p.probs + ((b * p.num_heads + head) * p.seqlen_q + row) * p.seqlen_k;
  std::fill_n(probs, p.seqlen_k, 0.0f);
  std::copy(weights.begin(), weights.end(), probs);
}

void ComputeRow(const AttentionParams& p, std::int64_t b, std::int64_t head, std::int64_t row) {
  const SequenceBounds s = BoundsOf(p, b);
  ReferenceRow result = {std::vector<double>(p.head_dim_v), kMinusInfinity, {}};
  if (row < s.seqlen_q) result = ComputeReferenceRow(p, b, head, row);
  if (row < s.room_q) StoreRow(p, b, head, row, result);
  StoreProbs(p, b, head, row, result.weights);
}

absl::Status Supports(const AttentionParams&, const DeviceTraits&) { return absl::OkStatus(); }

std::int64_t WorkspaceBytes(const AttentionParams&, const DeviceTraits&) { return 0; }

absl::Status Run(const AttentionParams& p, const ExecutionContext& context) {
  const std::int64_t num_tasks = p.batch_size * p.num_heads * p.seqlen_q;
  RunTasks(context.parallel_for, num_tasks, [&p](std::int64_t task) {
    const std::int64_t head = task / p.seqlen_q;
    ComputeRow(p, head / p.num_heads, head % p.num_heads, task % p.seqlen_q);
  });
  return absl::OkStatus();
}

}  // namespace

ReferenceRow ComputeReferenceRow(const AttentionParams& p, std::int64_t b, std::int64_t head,
                                 std::int64_t row_index) {
  const Row row = {p, BoundsOf(p, b), b, head, row_index};
  const double sink = p.sinks != nullptr ? p.sinks[head] : kMinusInfinity;
  std::vector<double> scores(row.s.seqlen_k, kMinusInfinity);
  for (std::int64_t j = 0; j < row.s.seqlen_k; ++j) {
    if (MaySee(row, j)) scores[j] = Score(row, j);
  }

  const double largest = Largest(scores, sink);
  double sum = sink == kMinusInfinity ? 0.0 : std::exp(sink - largest);
  ReferenceRow result;
  result.out.resize(p.head_dim_v);
  result.weights.resize(row.s.seqlen_k);
  for (std::int64_t j = 0; j < row.s.seqlen_k; ++j) {
    if (scores[j] == kMinusInfinity) continue;
    result.weights[j] = std::exp(scores[j] - largest);
    sum += result.weights[j];
  }
  result.lse = sum == 0.0 ? kMinusInfinity : largest + std::log(sum);

  for (std::int64_t j = 0; j < row.s.seqlen_k; ++j) {
    if (scores[j] == kMinusInfinity) continue;
    result.weights[j] /= sum;
    for (std::int64_t d = 0; d < p.head_dim_v; ++d)
      result.out[d] += result.weights[j] * row.V(j, d);
  }
  return result;
}

KernelImplementation ReferenceImplementation() {
  return {"reference", "cpu_reference", Backend::kCpu, Supports, WorkspaceBytes, Run};
}

}  // namespace attnd::cpu
