#include "kernels/reference/naive.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/attention_shape.h"
#include "kernels/online_softmax.h"
#include "kernels/reference/row_block.h"

namespace attnd::cpu {
namespace {

// The workspace: a matrix of scores [batch_size, num_heads, seqlen_q, seqlen_k], and what the
// second pass finds out about each of its rows.
class Workspace {
 public:
  Workspace(const AttentionParams& p, void* memory)
      : p_(p),
        scores_(static_cast<float*>(memory)),
        largest_(scores_ + Rows(p) * p.seqlen_k),
        sums_(largest_ + Rows(p)) {}

  static std::int64_t Rows(const AttentionParams& p) {
    return p.batch_size * p.num_heads * p.seqlen_q;
  }

  float* Scores(const RowBlock& block, const BlockRow& row) const {
    return scores_ + Index(block, row) * p_.seqlen_k;
  }
  float& Largest(const RowBlock& block, const BlockRow& row) const {
    return largest_[Index(block, row)];
  }
  float& Sum(const RowBlock& block, const BlockRow& row) const { return sums_[Index(block, row)]; }

 private:
  std::int64_t Index(const RowBlock& block, const BlockRow& row) const {
    return (block.b * p_.num_heads + block.head) * p_.seqlen_q + row.row;
  }

  const AttentionParams& p_;
  float* scores_;
  float* largest_;
  float* sums_;
};

// Pass 1: every score of every row, -inf where the row may not attend.
void StoreScores(const AttentionParams& p, const RowBlock& block, const Workspace& workspace) {
  HeadVector key;
  for (std::int64_t j = 0; j < block.bounds.seqlen_k; ++j) {
    if (block.AnyRowSees(j)) LoadKey(p, block, j, key);
    for (std::int64_t r = 0; r < block.num_rows; ++r) {
      const BlockRow& row = block.rows[r];
      workspace.Scores(block, row)[j] =
          row.Sees(j) ? row.scorer.Score(Dot(row.q, key, p.head_dim), j) : NegativeInfinity();
    }
  }
}

// exp(score - largest), and 0 for a key that is not attended to, also in a row that attends to
// none.
float Weight(float score, float largest) {
  return score == NegativeInfinity() ? 0.0f : std::exp(score - largest);
}

// Pass 2: the maximum and the sum of one row of scores, the sink included.
void ReduceRow(const AttentionParams& p, const RowBlock& block, const BlockRow& row,
               const Workspace& workspace) {
  const float* scores = workspace.Scores(block, row);
  const float sink = p.sinks != nullptr ? p.sinks[block.head] : NegativeInfinity();
  float largest = sink;
  for (std::int64_t j = 0; j < block.bounds.seqlen_k; ++j) largest = std::fmax(largest, scores[j]);
  float sum = Weight(sink, largest);
  for (std::int64_t j = 0; j < block.bounds.seqlen_k; ++j) sum += Weight(scores[j], largest);
  workspace.Largest(block, row) = largest;
  workspace.Sum(block, row) = sum;
}

// Pass 3: weights times values. Values of keys that a row does not attend to are not read for it.
void MultiplyValues(const AttentionParams& p, const RowBlock& block, const BlockRow& row,
                    const Workspace& workspace) {
  const float* scores = workspace.Scores(block, row);
  const SoftmaxState softmax = {workspace.Largest(block, row), workspace.Sum(block, row)};
  const float inverse_sum = softmax.InverseSum();
  float* probs = p.probs != nullptr ? ProbsRow(p, block, row) : nullptr;
  HeadVector sum = {};
  HeadVector value;
  for (std::int64_t j = 0; j < block.bounds.seqlen_k; ++j) {
    if (scores[j] == NegativeInfinity()) continue;
    const float weight = Weight(scores[j], softmax.m) * inverse_sum;
    if (probs != nullptr) probs[j] = weight;
    LoadValue(p, block, j, value);
    ScaleAndAdd(1.0f, weight, value, p.head_dim_v, sum);
  }
  StoreRow(p, block, row, sum, 1.0f, softmax.Lse());
}

template <typename RowFunction>
void ForEachRow(const AttentionParams& p, const ExecutionContext& context, RowFunction function) {
  ForEachRowBlock(p, context, [&](const RowBlock& block) {
    for (std::int64_t r = 0; r < block.num_rows; ++r) function(block, block.rows[r]);
  });
}

// Bytes of the workspace, or -1 where they do not fit in 63 bits.
std::int64_t CheckedWorkspaceBytes(const AttentionParams& p) {
  constexpr std::int64_t kLargestSeqlen = std::int64_t{1} << 62;
  if (p.seqlen_k > kLargestSeqlen) return -1;
  return CheckedMultiply(CheckedMultiply(Workspace::Rows(p), p.seqlen_k + 2), sizeof(float));
}

absl::Status Supports(const AttentionParams& p, const DeviceTraits&) {
  if (CheckedWorkspaceBytes(p) >= 0) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("algorithm: naive needs a score matrix of ",
                                               p.seqlen_q, " rows of ", p.seqlen_k,
                                               " for each head, which is past 63 bits of bytes"));
}

std::int64_t WorkspaceBytes(const AttentionParams& p, const DeviceTraits&) {
  return CheckedWorkspaceBytes(p);
}

absl::Status Run(const AttentionParams& p, const ExecutionContext& context) {
  const Workspace workspace(p, context.workspace);
  StorePadding(p, context);
  ClearProbs(p, context);
  ForEachRowBlock(p, context, [&](const RowBlock& block) { StoreScores(p, block, workspace); });
  ForEachRow(p, context, [&](const RowBlock& block, const BlockRow& row) {
    ReduceRow(p, block, row, workspace);
  });
  ForEachRow(p, context, [&](const RowBlock& block, const BlockRow& row) {
    MultiplyValues(p, block, row, workspace);
  });
  return absl::OkStatus();
}

}  // namespace

KernelImplementation NaiveImplementation() {
  return {"naive", "cpu_naive", Backend::kCpu, Supports, WorkspaceBytes, Run};
}

}  // namespace attnd::cpu
