#include "kernels/reference/two_pass.h"

#include <cmath>

#include "kernels/online_softmax.h"
#include "kernels/reference/row_block.h"

namespace attnd::cpu {
namespace {

// Calls visit(r, j, score) for every row r of the block and every key j that it may attend to.
template <typename Visit>
void ForEachScore(const AttentionParams& p, const RowBlock& block, std::int64_t j, Visit visit) {
  HeadVector key;
  LoadKey(p, block, j, key);
  for (std::int64_t r = 0; r < block.num_rows; ++r) {
    const BlockRow& row = block.rows[r];
    if (row.Sees(j)) visit(r, row.scorer.Score(Dot(row.q, key, p.head_dim), j));
  }
}

// Pass 1: the final maximum and sum of every row.
void ReduceRows(const AttentionParams& p, const RowBlock& block, SoftmaxState* states) {
  const KeyRange keys = block.Keys();
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    if (!block.AnyRowSees(j)) continue;
    ForEachScore(p, block, j, [states](std::int64_t r, float score) {
      float unused;
      states[r].Update(score, &unused);
    });
  }
  if (p.sinks == nullptr) return;
  for (std::int64_t r = 0; r < block.num_rows; ++r) states[r].AddSink(p.sinks[block.head]);
}

// Pass 2: the weights, final from the start, times the values.
void MultiplyValues(const AttentionParams& p, const RowBlock& block, const SoftmaxState* states,
                    HeadVector* sums) {
  const KeyRange keys = block.Keys();
  HeadVector value;
  for (std::int64_t j = keys.begin; j < keys.end; ++j) {
    if (!block.AnyRowSees(j)) continue;
    LoadValue(p, block, j, value);
    ForEachScore(p, block, j, [&](std::int64_t r, float score) {
      if (score == NegativeInfinity()) return;
      const float weight = std::exp(score - states[r].m) * states[r].InverseSum();
      if (p.probs != nullptr) ProbsRow(p, block, block.rows[r])[j] = weight;
      ScaleAndAdd(1.0f, weight, value, p.head_dim_v, sums[r]);
    });
  }
}

void AttendBlock(const AttentionParams& p, const RowBlock& block) {
  SoftmaxState states[kRowsPerBlock];
  HeadVector sums[kRowsPerBlock] = {};
  ReduceRows(p, block, states);
  MultiplyValues(p, block, states, sums);
  for (std::int64_t r = 0; r < block.num_rows; ++r) {
    StoreRow(p, block, block.rows[r], sums[r], 1.0f, states[r].Lse());
  }
}

absl::Status Supports(const AttentionParams&, const DeviceTraits&) { return absl::OkStatus(); }

std::int64_t WorkspaceBytes(const AttentionParams&, const DeviceTraits&) { return 0; }

absl::Status Run(const AttentionParams& p, const ExecutionContext& context) {
  StorePadding(p, context);
  ClearProbs(p, context);
  ForEachRowBlock(p, context, [&p](const RowBlock& block) { AttendBlock(p, block); });
  return absl::OkStatus();
}

}  // namespace

KernelImplementation TwoPassImplementation() {
  return {"two_pass", "cpu_two_pass", Backend::kCpu, Supports, WorkspaceBytes, Run};
}

}  // namespace attnd::cpu
