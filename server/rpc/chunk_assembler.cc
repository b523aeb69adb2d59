#include "server/rpc/chunk_assembler.h"

#include <cassert>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/rpc/error_details.h"

namespace attnd {
namespace {

std::string Describe(const TensorChunkView& chunk) {
  return absl::StrCat("a chunk of ", chunk.data.size(), " bytes of ", NameOf(chunk.tensor),
                      " at offset ", chunk.offset_bytes);
}

}  // namespace

ChunkAssembler::ChunkAssembler(const Destinations& destinations) : destinations_(destinations) {
  for (const absl::Span<std::byte>& destination : destinations)
    missing_bytes_ += destination.size();
}

absl::Status ChunkAssembler::Add(const TensorChunkView& chunk) {
  const int tensor = static_cast<int>(chunk.tensor);
  const auto tensor_bytes = static_cast<std::int64_t>(destinations_[tensor].size());
  const auto chunk_bytes = static_cast<std::int64_t>(chunk.data.size());
  if (chunk.offset_bytes < 0 || chunk.offset_bytes > tensor_bytes ||
      chunk_bytes > tensor_bytes - chunk.offset_bytes) {
    return FieldError(
        "chunk", absl::StrCat(Describe(chunk), " does not lie in the tensor, accepted: within its ",
                              tensor_bytes, " bytes"));
  }
  if (chunk_bytes == 0) return absl::OkStatus();

  IntervalSet& received = received_[tensor];
  const Interval interval{chunk.offset_bytes, chunk.offset_bytes + chunk_bytes};
  if (const std::optional<Interval> overlap = received.FindOverlap(interval)) {
    return FieldError("chunk",
                      absl::StrCat(Describe(chunk), " overlaps bytes ", overlap->begin, " to ",
                                   overlap->end, " that came before, accepted: each byte once"));
  }
  chunk.data.CopyTo(destinations_[tensor].data() + chunk.offset_bytes);
  received.Add(interval);
  missing_bytes_ -= chunk_bytes;
  if (received.num_intervals() > kMaxPieces) {
    return FieldError(
        "chunk",
        absl::StrCat(
            NameOf(chunk.tensor), " arrives in more than ", kMaxPieces,
            " separate pieces, accepted: larger chunks, or an order that leaves fewer gaps"));
  }
  return absl::OkStatus();
}

absl::Status ChunkAssembler::MissingError() const {
  assert(!complete());
  for (int i = 0; i < kNumInputTensors; ++i) {
    const auto tensor_bytes = static_cast<std::int64_t>(destinations_[i].size());
    const Interval gap = received_[i].FirstGap(tensor_bytes);
    if (gap.size() == 0) continue;
    const char* const name = NameOf(static_cast<InputTensor>(i));
    return FieldError(
        name, absl::StrCat("bytes ", gap.begin, " to ", gap.end, " of ", tensor_bytes,
                           " never came, accepted: all of them before the stream is half-closed"));
  }
  return absl::OkStatus();
}

}  // namespace attnd
