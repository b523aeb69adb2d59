// AttentionSpec -> AttentionProblem: everything that can be wrong with a request is found here,
// before memory is reserved for it.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "server/engine/attention_plan.h"

namespace attnd {

// What a request may ask for at most, whatever memory there is.
struct RequestLimits {
  std::int64_t max_batch_size = 1 << 20;
  // batch_size * num_heads. Kernels have at least one step for each, even where sequences are
  // empty.
  std::int64_t max_batch_heads = 1 << 24;
  std::int64_t max_probs_bytes = 64 << 20;
};

// A problem whose sizes, strides and options are checked and consistent, pointers null. Any error
// is InvalidArgument and names the field of the spec, its value and what is accepted.
absl::StatusOr<AttentionProblem> ProblemFromSpec(const v1::AttentionSpec& spec,
                                                 const RequestLimits& limits);

}  // namespace attnd
