#include "kernels/sequence_lengths.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/status_macros.h"

namespace attnd {
namespace {

// The queries or the keys of a problem.
struct Side {
  absl::string_view cu_seqlens_name;
  const std::int32_t* cu_seqlens;
  absl::string_view lengths_name;
  const std::int32_t* lengths;
  std::int64_t seqlen;  // of the longest sequence
  std::int64_t total;   // rows of the tensor, over all packed sequences
};

absl::Status CheckElement(absl::string_view field, std::int64_t index, std::int64_t value,
                          std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, "[", index, "]: ", value, "; ", least, " to ", most, " is accepted"));
}

absl::Status CheckSide(const Side& side, std::int64_t batch_size) {
  const std::int32_t* cu = side.cu_seqlens;
  if (cu != nullptr) RETURN_IF_ERROR(CheckElement(side.cu_seqlens_name, 0, cu[0], 0, 0));
  for (std::int64_t b = 0; b < batch_size; ++b) {
    std::int64_t room = side.seqlen;
    if (cu != nullptr) {
      const std::int64_t most = std::min(cu[b] + side.seqlen, side.total);
      RETURN_IF_ERROR(CheckElement(side.cu_seqlens_name, b + 1, cu[b + 1], cu[b], most));
      room = cu[b + 1] - cu[b];
    }
    if (side.lengths != nullptr) {
      RETURN_IF_ERROR(CheckElement(side.lengths_name, b, side.lengths[b], 0, room));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateHostLengths(const AttentionParams& p) {
  RETURN_IF_ERROR(
      CheckSide({"cu_seqlens_q", p.cu_seqlens_q, "lengths_q", p.lengths_q, p.seqlen_q, p.q.seqlen},
                p.batch_size));
  return CheckSide(
      {"cu_seqlens_k", p.cu_seqlens_k, "lengths_k", p.lengths_k, p.seqlen_k, p.k.seqlen},
      p.batch_size);
}

}  // namespace attnd
