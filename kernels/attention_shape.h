// Shape rules and derived sizes of an attention problem, all 64-bit.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/attention_params.h"
#include "kernels/sequence_bounds.h"

namespace attnd {

// What head_dim and head_dim_v may be: multiples of the one, up to the other.
inline constexpr std::int64_t kHeadDimMultiple = 8;
inline constexpr std::int64_t kMaxHeadDim = 256;

// Checks all that the shapes, dtypes and scalar options of `p` must satisfy and that can be seen
// without reading device memory. InvalidArgument names the field, its value and what is accepted.
// Pointers are not looked at, so that a problem can be checked before any memory is reserved for
// it.
absl::Status ValidateShape(const AttentionParams& p);

// An estimate from the shape alone, as if all sequences were the longest (VisibleFlops looks at
// their lengths), of the floating-point operations of both products: a multiply-add is two, and for
// `causal` with seqlen_q == seqlen_k, half the matrix: 4 * batch_size * num_heads * seqlen_q *
// seqlen_k * (head_dim + head_dim_v) / 2.
double AttentionFlops(const AttentionParams& p);

// a * b, or -1 where it does not fit in 63 bits or either is negative.
std::int64_t CheckedMultiply(std::int64_t a, std::int64_t b);

}  // namespace attnd
