#include "kernels/reference/row_block.h"

#include <algorithm>

#include "kernels/online_softmax.h"

namespace attnd::cpu {
namespace {

template <typename T, typename Widen>
void WidenRow(const void* data, std::int64_t offset, std::int64_t dim, Widen widen,
              HeadVector& row) {
  const T* source = static_cast<const T*>(data) + offset;
  for (std::int64_t d = 0; d < dim; ++d) row[d] = widen(source[d]);
}

void LoadRow(const TensorView& view, std::int64_t offset, HeadVector& row) {
  switch (view.dtype) {
    case DataType::kFloat32:
      return WidenRow<float>(
          view.data, offset, view.dim, [](float x) { return x; }, row);
    case DataType::kFloat16:
      return WidenRow<std::uint16_t>(view.data, offset, view.dim, Float16ToFloat, row);
    case DataType::kBFloat16:
      return WidenRow<std::uint16_t>(view.data, offset, view.dim, BFloat16ToFloat, row);
  }
}

// Writes one row of out and lse.
void StoreOutput(const AttentionParams& p, const SequenceBounds& s, std::int64_t head,
                 std::int64_t row, const HeadVector& out, float lse) {
  const std::int64_t offset = RowOffset(p.out, s.q_batch, s.q_begin, row, head);
  for (std::int64_t d = 0; d < p.head_dim_v; ++d)
    StoreElement(p.out.data, p.out.dtype, offset + d, out[d]);
  if (p.lse != nullptr) p.lse[LseOffset(p, s, head, row)] = lse;
}

BlockRow LoadBlockRow(const AttentionParams& p, const RowBlock& block, std::int64_t row) {
  BlockRow result;
  result.row = row;
  result.scorer = MakeRowScorer(p, block.bounds, block.b, block.head, row);
  LoadRow(p.q, RowOffset(p.q, block.bounds.q_batch, block.bounds.q_begin, row, block.head),
          result.q);
  return result;
}

std::int64_t BlocksPerSequence(const AttentionParams& p) {
  return (p.seqlen_q + kRowsPerBlock - 1) / kRowsPerBlock;
}

}  // namespace

KeyRange RowBlock::Keys() const {
  KeyRange keys;
  for (std::int64_t r = 0; r < num_rows; ++r) {
    const KeyRange row = rows[r].scorer.keys;
    if (row.begin == row.end) continue;
    if (keys.begin == keys.end) keys = row;
    keys = {std::min(keys.begin, row.begin), std::max(keys.end, row.end)};
  }
  return keys;
}

bool RowBlock::AnyRowSees(std::int64_t j) const {
  return std::any_of(rows.begin(), rows.begin() + num_rows,
                     [j](const BlockRow& row) { return row.Sees(j); });
}

void ForEachRowBlock(const AttentionParams& p, const ExecutionContext& context,
                     absl::FunctionRef<void(const RowBlock&)> compute) {
  const std::int64_t blocks_per_sequence = BlocksPerSequence(p);
  const std::int64_t num_tasks = p.batch_size * p.num_heads * blocks_per_sequence;
  RunTasks(context.parallel_for, num_tasks, [&](std::int64_t task) {
    RowBlock block;
    block.b = task / blocks_per_sequence / p.num_heads;
    block.head = task / blocks_per_sequence % p.num_heads;
    block.kv_head = KvHeadOf(p, block.head);
    block.bounds = BoundsOf(p, block.b);
    const std::int64_t begin = task % blocks_per_sequence * kRowsPerBlock;
    const std::int64_t end = std::min(begin + kRowsPerBlock, block.bounds.seqlen_q);
    for (std::int64_t row = begin; row < end; ++row)
      block.rows[block.num_rows++] = LoadBlockRow(p, block, row);
    if (block.num_rows > 0) compute(block);
  });
}

void StorePadding(const AttentionParams& p, const ExecutionContext& context) {
  constexpr HeadVector kZeros = {};
  RunTasks(context.parallel_for, p.batch_size * p.num_heads, [&](std::int64_t task) {
    const SequenceBounds bounds = BoundsOf(p, task / p.num_heads);
    for (std::int64_t row = bounds.seqlen_q; row < bounds.room_q; ++row) {
      StoreOutput(p, bounds, task % p.num_heads, row, kZeros, NegativeInfinity());
    }
  });
}

void ClearProbs(const AttentionParams& p, const ExecutionContext& context) {
  if (p.probs == nullptr) return;
  const std::int64_t elements_per_head = p.seqlen_q * p.seqlen_k;
  RunTasks(context.parallel_for, p.batch_size * p.num_heads, [&](std::int64_t task) {
    std::fill_n(p.probs + task * elements_per_head, elements_per_head, 0.0f);
  });
}

float* ProbsRow(const AttentionParams& p, const RowBlock& block, const BlockRow& row) {
  return p.probs + ((block.b * p.num_heads + block.head) * p.seqlen_q + row.row) * p.seqlen_k;
}

void LoadKey(const AttentionParams& p, const RowBlock& block, std::int64_t j, HeadVector& key) {
  LoadRow(p.k, RowOffset(p.k, block.bounds.k_batch, block.bounds.k_begin, j, block.kv_head), key);
}

void LoadValue(const AttentionParams& p, const RowBlock& block, std::int64_t j, HeadVector& value) {
  LoadRow(p.v, RowOffset(p.v, block.bounds.k_batch, block.bounds.k_begin, j, block.kv_head), value);
}

float Dot(const HeadVector& a, const HeadVector& b, std::int64_t dim) {
  constexpr std::int64_t kLanes =
      8;  // independent sums, so that the compiler may use vector instructions
  float lanes[kLanes] = {};
  for (std::int64_t d = 0; d < dim; d += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[d + lane] * b[d + lane];
  }
  return ((lanes[0] + lanes[4]) + (lanes[1] + lanes[5])) +
         ((lanes[2] + lanes[6]) + (lanes[3] + lanes[7]));
}

void ScaleAndAdd(float factor, float weight, const HeadVector& value, std::int64_t dim,
                 HeadVector& out) {
  for (std::int64_t d = 0; d < dim; ++d) out[d] = out[d] * factor + weight * value[d];
}

void StoreRow(const AttentionParams& p, const RowBlock& block, const BlockRow& row,
              const HeadVector& sum, float factor, float lse) {
  HeadVector out;
  for (std::int64_t d = 0; d < p.head_dim_v; ++d) out[d] = sum[d] * factor;
  StoreOutput(p, block.bounds, block.head, row.row, out, lse);
}

}  // namespace attnd::cpu
