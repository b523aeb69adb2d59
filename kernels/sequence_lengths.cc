#include "kernels/sequence_lengths.h"

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"

namespace attnd {
namespace {

absl::Span<const std::int32_t> ListOf(const std::int32_t* values, std::int64_t count) {
  return values == nullptr ? absl::Span<const std::int32_t>()
                           : absl::MakeConstSpan(values, static_cast<std::size_t>(count));
}

absl::Status Check(const SequenceLengths<std::int32_t>& side) {
  const std::optional<LengthOutOfRange> bad = FindLengthOutOfRange(side);
  if (!bad.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(bad->list, "[", bad->index, "]: ", bad->value,
                                                 "; ", bad->least, " to ", bad->most,
                                                 " is accepted"));
}

}  // namespace

absl::Status ValidateHostLengths(const AttentionParams& p) {
  RETURN_IF_ERROR(Check({"cu_seqlens_q", ListOf(p.cu_seqlens_q, p.batch_size + 1), "lengths_q",
                         ListOf(p.lengths_q, p.batch_size), p.seqlen_q, p.q.seqlen}));
  return Check({"cu_seqlens_k", ListOf(p.cu_seqlens_k, p.batch_size + 1), "lengths_k",
                ListOf(p.lengths_k, p.batch_size), p.seqlen_k, p.k.seqlen});
}

}  // namespace attnd
