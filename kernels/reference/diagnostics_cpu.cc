#include "kernels/reference/diagnostics_cpu.h"

#include <cmath>
#include <limits>
#include <mutex>

#include "kernels/online_softmax.h"
#include "kernels/reference/row_block.h"
#include "kernels/row_scores.h"

namespace attnd::cpu {
namespace {

AttentionDiagnostics EmptyReport() {
  AttentionDiagnostics report;
  report.score_min = report.lse_min = std::numeric_limits<float>::infinity();
  report.score_max = report.lse_max = NegativeInfinity();
  return report;
}

void Add(const AttentionDiagnostics& part, AttentionDiagnostics& total) {
  total.score_min = std::fmin(total.score_min, part.score_min);
  total.score_max = std::fmax(total.score_max, part.score_max);
  total.lse_min = std::fmin(total.lse_min, part.lse_min);
  total.lse_max = std::fmax(total.lse_max, part.lse_max);
  total.largest_weight = std::fmax(total.largest_weight, part.largest_weight);
  total.rows_fully_masked += part.rows_fully_masked;
  total.nonfinite_q += part.nonfinite_q;
  total.nonfinite_k += part.nonfinite_k;
  total.nonfinite_v += part.nonfinite_v;
}

std::int64_t CountNonfinite(const HeadVector& row, std::int64_t dim) {
  std::int64_t count = 0;
  for (std::int64_t d = 0; d < dim; ++d) count += !std::isfinite(row[d]);
  return count;
}

RowScores ScoresOf(const AttentionParams& p, const RowBlock& block, const BlockRow& row) {
  RowScores scores;
  HeadVector key;
  for (std::int64_t j = row.scorer.keys.begin; j < row.scorer.keys.end; ++j) {
    if (!row.scorer.MaySee(j)) continue;
    LoadKey(p, block, j, key);
    scores.Add(row.scorer.Score(Dot(row.q, key, p.head_dim), j));
  }
  return scores;
}

// Scores, weights and lse of one row.
void InspectRow(const AttentionParams& p, const RowBlock& block, const BlockRow& row,
                AttentionDiagnostics& report) {
  const RowScores scores = ScoresOf(p, block, row);
  if (!scores.attends) {
    ++report.rows_fully_masked;
    return;
  }
  const float lse = p.lse[LseOffset(p, block.bounds, block.head, row.row)];
  const float sink = p.sinks != nullptr ? p.sinks[block.head] : NegativeInfinity();
  report.score_min = std::fmin(report.score_min, scores.smallest);
  report.score_max = std::fmax(report.score_max, scores.largest);
  report.lse_min = std::fmin(report.lse_min, lse);
  report.lse_max = std::fmax(report.lse_max, lse);
  report.largest_weight = std::fmax(report.largest_weight, scores.LargestWeight(sink));
}

AttentionDiagnostics InspectBlock(const AttentionParams& p, const RowBlock& block) {
  AttentionDiagnostics report = EmptyReport();
  for (std::int64_t r = 0; r < block.num_rows; ++r) {
    report.nonfinite_q += CountNonfinite(block.rows[r].q, p.head_dim);
    InspectRow(p, block, block.rows[r], report);
  }
  return report;
}

// The keys and values of one key/value head of one sequence.
AttentionDiagnostics InspectKeys(const AttentionParams& p, std::int64_t b, std::int64_t kv_head) {
  AttentionDiagnostics report = EmptyReport();
  RowBlock block;
  block.kv_head = kv_head;
  block.bounds = BoundsOf(p, b);
  HeadVector row;
  for (std::int64_t j = 0; j < block.bounds.seqlen_k; ++j) {
    LoadKey(p, block, j, row);
    report.nonfinite_k += CountNonfinite(row, p.head_dim);
    LoadValue(p, block, j, row);
    report.nonfinite_v += CountNonfinite(row, p.head_dim_v);
  }
  return report;
}

}  // namespace

void ComputeDiagnostics(const AttentionParams& p, const ExecutionContext& context,
                        AttentionDiagnostics* result) {
  std::mutex mutex;
  AttentionDiagnostics total = EmptyReport();
  const auto add = [&](const AttentionDiagnostics& part) {
    const std::lock_guard<std::mutex> lock(mutex);
    Add(part, total);
  };
  ForEachRowBlock(p, context, [&](const RowBlock& block) { add(InspectBlock(p, block)); });
  RunTasks(context.parallel_for, p.batch_size * p.num_kv_heads, [&](std::int64_t task) {
    add(InspectKeys(p, task / p.num_kv_heads, task % p.num_kv_heads));
  });
  *result = total;
}

}  // namespace attnd::cpu
