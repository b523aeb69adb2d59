// What a caller may want to know of a problem's numbers: the numerical-stability report.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/attention_params.h"
#include "kernels/kernel_registry.h"

namespace attnd {

// Plain data, so that a device kernel can fill it. Ranges cover the finished scores that rows
// attend to (after scale, softcap, bias and ALiBi); an empty range is (+inf, -inf).
struct AttentionDiagnostics {
  float score_min = 0.0f;
  float score_max = 0.0f;
  float lse_min = 0.0f;  // over rows that attend to something
  float lse_max = 0.0f;
  float largest_weight = 0.0f;  // largest entry of P, from the scores, not through lse
  std::int64_t rows_fully_masked =
      0;  // rows within a sequence's length that attend to nothing, over all query heads
  std::int64_t nonfinite_q = 0;  // elements within the sequences' lengths that are NaN or infinite
  std::int64_t nonfinite_k = 0;
  std::int64_t nonfinite_v = 0;
};

// Workspace of RunDiagnostics, in bytes.
std::int64_t DiagnosticsWorkspaceBytes(const AttentionParams& p, const DeviceTraits& device);

// Fills *result (in the device's memory). p.lse must hold the finished log-sum-exp of the same
// problem. Costs one more pass over all scores.
absl::Status RunDiagnostics(const AttentionParams& p, const ExecutionContext& context,
                            AttentionDiagnostics* result);

}  // namespace attnd
