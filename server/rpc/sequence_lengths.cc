#include "server/rpc/sequence_lengths.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/sequence_lengths.h"
#include "kernels/status_macros.h"
#include "server/rpc/field_checks.h"

namespace attnd {
namespace {

using Int64List = google::protobuf::RepeatedField<google::protobuf::int64>;

// The fields that say the same of queries or of keys, and their names.
struct Side {
  absl::string_view seqlen_name;
  std::int64_t seqlen;
  absl::string_view cumulative_name;
  const Int64List& cumulative;
  absl::string_view lengths_name;
  const Int64List& lengths;
};

struct SideResult {
  std::int64_t& seqlen;
  std::vector<std::int32_t>& cumulative;
  std::vector<std::int32_t>& lengths;
};

absl::Span<const std::int64_t> ListOf(const Int64List& list) {
  return absl::MakeConstSpan(list.data(), static_cast<std::size_t>(list.size()));
}

absl::Status CheckLists(const Side& side, bool packed, std::int64_t batch_size) {
  if (packed) {
    RETURN_IF_ERROR(
        CheckCount(side.cumulative_name, side.cumulative.size(), batch_size + 1, "batch_size + 1"));
  }
  if (!side.lengths.empty())
    RETURN_IF_ERROR(CheckCount(side.lengths_name, side.lengths.size(), batch_size, "batch_size"));
  const std::optional<LengthOutOfRange> bad = FindLengthOutOfRange<std::int64_t>(
      {side.cumulative_name, ListOf(side.cumulative), side.lengths_name, ListOf(side.lengths),
       packed ? kMaxSeqlen : side.seqlen, kMaxSeqlen});
  if (!bad.has_value()) return absl::OkStatus();
  return CheckRange(Element(bad->list, bad->index), bad->value, bad->least, bad->most);
}

std::int64_t Longest(const Int64List& cumulative) {
  std::int64_t longest = 0;
  for (int b = 1; b < cumulative.size(); ++b)
    longest = std::max<std::int64_t>(longest, cumulative[b] - cumulative[b - 1]);
  return longest;
}

// A declared longest sequence must be the true one: kernels walk up to it for every sequence, and
// which kernel computes a problem may depend on it.
absl::Status CheckDeclaredLongest(const Side& side, std::int64_t longest) {
  if (side.seqlen == 0 || side.seqlen == longest) return absl::OkStatus();
  return Refused(
      side.seqlen_name, side.seqlen,
      absl::StrCat(longest, " (the longest sequence of ", side.cumulative_name, "), or 0"));
}

absl::Status ReadSide(const Side& side, bool packed, std::int64_t batch_size, SideResult result) {
  RETURN_IF_ERROR(CheckRange(side.seqlen_name, side.seqlen, 0, kMaxSeqlen));
  RETURN_IF_ERROR(CheckLists(side, packed, batch_size));
  result.seqlen = packed ? Longest(side.cumulative) : side.seqlen;
  if (packed) RETURN_IF_ERROR(CheckDeclaredLongest(side, result.seqlen));
  result.cumulative.assign(side.cumulative.begin(), side.cumulative.end());
  result.lengths.assign(side.lengths.begin(), side.lengths.end());
  return absl::OkStatus();
}

}  // namespace

absl::Status ReadSequences(const v1::AttentionSpec& spec, AttentionProblem* problem) {
  const bool packed = !spec.cu_seqlens_q().empty();
  if (packed != !spec.cu_seqlens_k().empty()) {
    return packed ? FieldError("cu_seqlens_k", "is empty, accepted with cu_seqlens_q: both")
                  : FieldError("cu_seqlens_q", "is empty, accepted with cu_seqlens_k: both");
  }
  if (packed && spec.layout() == v1::TENSOR_LAYOUT_BHSD) {
    return Refused("layout", "TENSOR_LAYOUT_BHSD", "TENSOR_LAYOUT_BSHD with cu_seqlens");
  }
  AttentionParams& p = problem->params;
  const Side q{"seqlen_q",          spec.seqlen_q(), "cu_seqlens_q",
               spec.cu_seqlens_q(), "lengths_q",     spec.lengths_q()};
  const Side k{"seqlen_k",          spec.seqlen_k(), "cu_seqlens_k",
               spec.cu_seqlens_k(), "lengths_k",     spec.lengths_k()};
  RETURN_IF_ERROR(
      ReadSide(q, packed, p.batch_size, {p.seqlen_q, problem->cu_seqlens_q, problem->lengths_q}));
  return ReadSide(k, packed, p.batch_size, {p.seqlen_k, problem->cu_seqlens_k, problem->lengths_k});
}

}  // namespace attnd
