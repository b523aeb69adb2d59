// How the CPU generations share out their work: a few neighbouring query rows of one head of one
// sequence at a time, all of them widened to float32. A result depends on its own row only, so
// neither on the cut nor on the threads.
#pragma once

#include <array>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "kernels/attention_params.h"
#include "kernels/attention_score.h"
#include "kernels/attention_shape.h"
#include "kernels/kernel_registry.h"

namespace attnd::cpu {

inline constexpr std::int64_t kRowsPerBlock = 16;

using HeadVector = std::array<float, kMaxHeadDim>;

// One query row of a block.
struct BlockRow {
  std::int64_t row = 0;  // of the sequence's own rows
  RowScorer scorer;
  HeadVector q;

  bool Sees(std::int64_t j) const {
    return j >= scorer.keys.begin && j < scorer.keys.end && scorer.MaySee(j);
  }
};

// Rows [rows[0].row, rows[0].row + num_rows) of query head `head` of sequence `b`, all within its
// length.
struct RowBlock {
  std::int64_t b = 0;
  std::int64_t head = 0;
  std::int64_t kv_head = 0;
  SequenceBounds bounds;
  std::int64_t num_rows = 0;
  std::array<BlockRow, kRowsPerBlock> rows;

  // All keys that at least one row's band holds.
  KeyRange Keys() const;
  // Whether some row may attend to key j.
  bool AnyRowSees(std::int64_t j) const;
};

// Calls `compute` for every block of rows in use, through context.parallel_for.
void ForEachRowBlock(const AttentionParams& p, const ExecutionContext& context,
                     absl::FunctionRef<void(const RowBlock&)> compute);

// Gives the rows between a sequence's length and its room out = 0 and lse = -inf.
void StorePadding(const AttentionParams& p, const ExecutionContext& context);

// Sets all of p.probs to 0; does nothing without p.probs.
void ClearProbs(const AttentionParams& p, const ExecutionContext& context);

// The row of p.probs that belongs to a row of a block.
float* ProbsRow(const AttentionParams& p, const RowBlock& block, const BlockRow& row);

// Row j of k or v of the block's sequence and key/value head, widened.
void LoadKey(const AttentionParams& p, const RowBlock& block, std::int64_t j, HeadVector& key);
void LoadValue(const AttentionParams& p, const RowBlock& block, std::int64_t j, HeadVector& value);

// sum a[d] b[d] over d < dim, a multiple of 8.
float Dot(const HeadVector& a, const HeadVector& b, std::int64_t dim);

// out = out * factor + weight * value, element-wise over d < dim.
void ScaleAndAdd(float factor, float weight, const HeadVector& value, std::int64_t dim,
                 HeadVector& out);

// out = sum * factor in p.out's type, and lse if it is wanted.
void StoreRow(const AttentionParams& p, const RowBlock& block, const BlockRow& row,
              const HeadVector& sum, float factor, float lse);

}  // namespace attnd::cpu
