// The check of sequence lengths that lie in host memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/attention_params.h"

namespace attnd {

// Lengths and their sums are int32 on the device.
inline constexpr std::int64_t kMaxSeqlen = std::numeric_limits<std::int32_t>::max();

// The lengths of the queries, or of the keys, of a batch. Of packed sequences cu_seqlens has
// batch_size + 1 entries, else none; lengths has batch_size entries, or none.
template <typename Integer>
struct SequenceLengths {
  absl::string_view cu_seqlens_name;
  absl::Span<const Integer> cu_seqlens;
  absl::string_view lengths_name;
  absl::Span<const Integer> lengths;
  std::int64_t seqlen;  // the most that one sequence may have
  std::int64_t total;   // the most that all packed ones may have
};

// An element of one of the lists, and the values that it may have.
struct LengthOutOfRange {
  absl::string_view list;
  std::int64_t index;
  std::int64_t value;
  std::int64_t least;
  std::int64_t most;
};

// The first element that breaks a rule: cu_seqlens begins with 0, never falls, holds no sequence of
// more than `seqlen` and ends at `total` at most; lengths are from 0 to the room that each sequence
// has.
template <typename Integer>
std::optional<LengthOutOfRange> FindLengthOutOfRange(const SequenceLengths<Integer>& side) {
  const auto& cu = side.cu_seqlens;
  if (!cu.empty() && cu[0] != 0) return LengthOutOfRange{side.cu_seqlens_name, 0, cu[0], 0, 0};
  for (std::int64_t b = 1; b < static_cast<std::int64_t>(cu.size()); ++b) {
    const std::int64_t most = cu[b - 1] + std::min(side.seqlen, side.total - cu[b - 1]);
    if (cu[b] < cu[b - 1] || cu[b] > most)
      return LengthOutOfRange{side.cu_seqlens_name, b, cu[b], cu[b - 1], most};
  }
  for (std::int64_t b = 0; b < static_cast<std::int64_t>(side.lengths.size()); ++b) {
    const std::int64_t room = cu.empty() ? side.seqlen : cu[b + 1] - cu[b];
    const std::int64_t length = side.lengths[b];
    if (length < 0 || length > room) return LengthOutOfRange{side.lengths_name, b, length, 0, room};
  }
  return std::nullopt;
}

// FindLengthOutOfRange over cu_seqlens_* and lengths_* of `p`, which has passed ValidateShape,
// where they are not nullptr: no sequence is longer than seqlen_*, and all lie inside the tensors.
// InvalidArgument names the element, its value and what is accepted.
absl::Status ValidateHostLengths(const AttentionParams& p);

}  // namespace attnd
