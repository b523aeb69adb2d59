#include "server/rpc/sequence_lengths.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
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

// A declared longest sequence must be the true one: kernels walk up to it for every sequence, and
// which kernel computes a problem may depend on it.
absl::Status ReadCumulative(const Side& side, std::int64_t batch_size, SideResult result) {
  const Int64List& list = side.cumulative;
  RETURN_IF_ERROR(CheckCount(side.cumulative_name, list.size(), batch_size + 1, "batch_size + 1"));
  if (list[0] != 0) return Refused(Element(side.cumulative_name, 0), list[0], "0");
  std::int64_t longest = 0;
  for (int i = 1; i < list.size(); ++i) {
    if (list[i] < list[i - 1] || list[i] > kMaxSeqlen) {
      return CheckRange(Element(side.cumulative_name, i), list[i], list[i - 1], kMaxSeqlen);
    }
    longest = std::max<std::int64_t>(longest, list[i] - list[i - 1]);
  }
  if (side.seqlen != 0 && side.seqlen != longest) {
    return Refused(
        side.seqlen_name, side.seqlen,
        absl::StrCat(longest, " (the longest sequence of ", side.cumulative_name, "), or 0"));
  }
  result.seqlen = longest;
  result.cumulative.assign(list.begin(), list.end());
  return absl::OkStatus();
}

absl::Status ReadLengths(const Side& side, std::int64_t batch_size, SideResult result) {
  const Int64List& list = side.lengths;
  if (list.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckCount(side.lengths_name, list.size(), batch_size, "batch_size"));
  for (int b = 0; b < list.size(); ++b) {
    const std::int64_t room =
        result.cumulative.empty() ? result.seqlen : result.cumulative[b + 1] - result.cumulative[b];
    if (list[b] < 0 || list[b] > room)
      return CheckRange(Element(side.lengths_name, b), list[b], 0, room);
  }
  result.lengths.assign(list.begin(), list.end());
  return absl::OkStatus();
}

absl::Status ReadSide(const Side& side, bool packed, std::int64_t batch_size, SideResult result) {
  RETURN_IF_ERROR(CheckRange(side.seqlen_name, side.seqlen, 0, kMaxSeqlen));
  result.seqlen = side.seqlen;
  if (packed) RETURN_IF_ERROR(ReadCumulative(side, batch_size, result));
  return ReadLengths(side, batch_size, result);
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
