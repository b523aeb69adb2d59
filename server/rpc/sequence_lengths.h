// How long the sequences of a request are: seqlen_*, cu_seqlens_* and lengths_* of its spec.
#pragma once

#include "absl/status/status.h"
#include "attnd/v1/attention.pb.h"
#include "server/engine/attention_plan.h"

namespace attnd {

// Checks the fields and fills params.seqlen_q and seqlen_k (of packed sequences: the longest),
// cu_seqlens_* and lengths_* of `problem`, whose batch_size is set. InvalidArgument names the
// field, its value and what is accepted.
absl::Status ReadSequences(const v1::AttentionSpec& spec, AttentionProblem* problem);

}  // namespace attnd
