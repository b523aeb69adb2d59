// The standard un-fused computation, which sets how much error an implementation may have.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention_params.h"

namespace attnd::testing {

struct UnfusedRow {
  std::vector<float> out;      // [head_dim_v], in the type of p.out
  float lse = 0.0f;            // -inf for a row that attends to nothing
  std::vector<float> weights;  // [the sequence's own seqlen_k], in the type of p.q
};

// Query row `row` of (b, head) as a framework computes it with three operations in the dtype of q:
// scores, softmax and out are each computed in float32 and then rounded to that dtype.
UnfusedRow ComputeUnfusedRow(const AttentionParams& p, std::int64_t b, std::int64_t head,
                             std::int64_t row);

}  // namespace attnd::testing
