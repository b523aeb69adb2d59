#include "tests/testing/expected_diagnostics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/reference/attention_fp64.h"
#include "kernels/sequence_bounds.h"

namespace attnd::testing {

AttentionDiagnostics ExpectedDiagnostics(Problem& problem) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const AttentionParams p = problem.params();
  AttentionDiagnostics report;
  report.score_min = report.lse_min = kInfinity;
  report.score_max = report.lse_max = -kInfinity;
  for (std::int64_t b = 0; b < p.batch_size; ++b) {
    for (std::int64_t i = 0; i < p.num_heads * BoundsOf(p, b).seqlen_q; ++i) {
      const cpu::ReferenceRow row =
          cpu::ComputeReferenceRow(p, b, i % p.num_heads, i / p.num_heads);
      bool attends = false;
      for (double weight : row.weights) {
        if (weight == 0) continue;
        attends = true;
        const float score = static_cast<float>(std::log(weight) + row.lse);
        report.score_min = std::min(report.score_min, score);
        report.score_max = std::max(report.score_max, score);
        report.largest_weight = std::max(report.largest_weight, static_cast<float>(weight));
      }
      if (!attends) {
        ++report.rows_fully_masked;
        continue;
      }
      report.lse_min = std::min(report.lse_min, static_cast<float>(row.lse));
      report.lse_max = std::max(report.lse_max, static_cast<float>(row.lse));
    }
  }
  return report;
}

}  // namespace attnd::testing
