// The oracle: attention in float64, one row at a time, written down as AttentionParams states it
// and sharing no arithmetic with any other implementation. Slow.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention_params.h"
#include "kernels/kernel_registry.h"

namespace attnd::cpu {

// The exact result of one query row.
struct ReferenceRow {
  std::vector<double> out;      // [head_dim_v]
  double lse = 0.0;             // -inf for a row that attends to nothing
  std::vector<double> weights;  // [the sequence's own seqlen_k]; 0 where the row does not attend
};

// Row `row` of query head `head` of sequence `b`; `row` lies inside the sequence's length. `p` is
// in host memory and has passed ValidateShape. Keys and values that the row may not see are not
// read.
ReferenceRow ComputeReferenceRow(const AttentionParams& p, std::int64_t b, std::int64_t head,
                                 std::int64_t row);

// Algorithm "reference": the same for all rows, rounded once to the output types. All options,
// types and outputs. The dispatcher never chooses it by itself.
KernelImplementation ReferenceImplementation();

}  // namespace attnd::cpu
