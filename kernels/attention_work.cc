#include "kernels/attention_work.h"

#include <algorithm>

#include "kernels/attention_shape.h"
#include "kernels/sequence_bounds.h"

namespace attnd {
namespace {

// 56000 rows of 32 bytes and one key took 18 ns each, 7000 of 256 bytes 43 ns; an operation of long
// rows takes 16 ps.
constexpr double kFlopsPerRow = 1000;
constexpr double kFlopsPerOutputByte = 8;

// The sum over rows i in [0, rows) of i + offset, clamped to [0, most]. In double: an open window
// is wider than 63 bits can be added to.
double SumOfClamped(double rows, double offset, double most) {
  const double first = std::clamp(-offset, 0.0, rows);       // rows before it count 0
  const double last = std::clamp(most - offset, 0.0, rows);  // rows from it on count `most`
  return (last - first) * (first + last - 1 + 2 * offset) / 2 + (rows - last) * most;
}

double VisiblePairsOf(const AttentionParams& p, const SequenceBounds& s) {
  const auto rows = static_cast<double>(s.seqlen_q);
  const auto keys = static_cast<double>(s.seqlen_k);
  const double position = keys - rows;  // of row 0 among the keys
  const double window_right = p.causal ? 0.0 : static_cast<double>(p.window_right);
  const double seen_until =
      window_right < 0 ? rows * keys : SumOfClamped(rows, position + window_right + 1, keys);
  const double seen_from =
      p.window_left < 0 ? 0.0
                        : SumOfClamped(rows, position - static_cast<double>(p.window_left), keys);
  return seen_until - seen_from;
}

}  // namespace

double VisiblePairs(const AttentionParams& p) {
  double pairs = 0;
  for (std::int64_t b = 0; b < p.batch_size; ++b) pairs += VisiblePairsOf(p, BoundsOf(p, b));
  return pairs;
}

double VisibleFlops(const AttentionParams& p) {
  return 2.0 * static_cast<double>(p.num_heads) * VisiblePairs(p) *
         static_cast<double>(p.head_dim + p.head_dim_v);
}

double AttentionCost(const AttentionParams& p) {
  const double rows = static_cast<double>(p.batch_size) * static_cast<double>(p.num_heads) *
                      static_cast<double>(p.seqlen_q);
  const auto row_bytes = static_cast<double>(p.head_dim_v * SizeOf(p.out.dtype));
  return AttentionFlops(p) + rows * (kFlopsPerRow + kFlopsPerOutputByte * row_bytes);
}

}  // namespace attnd
