// The check of sequence lengths that lie in host memory.
#pragma once

#include "absl/status/status.h"
#include "kernels/attention_params.h"

namespace attnd {

// Checks that cu_seqlens_* begin with 0, never fall, hold no sequence longer than seqlen_* and end
// inside the tensors, and that lengths_* are from 0 to the room that each sequence has.
// InvalidArgument names the element, its value and what is accepted. Reads those arrays of `p`,
// which has passed ValidateShape, where they are not nullptr.
absl::Status ValidateHostLengths(const AttentionParams& p);

}  // namespace attnd
