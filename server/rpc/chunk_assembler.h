// Puts the chunks of an AttendStream where they belong: any tensor, any order, each byte once.
#pragma once

#include <array>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/engine/attention_plan.h"
#include "server/rpc/attend_messages.h"
#include "server/rpc/interval_set.h"

namespace attnd {

// Not thread-safe.
class ChunkAssembler {
 public:
  // Where each tensor goes, in the order of InputTensor. The memory must outlive the assembler.
  using Destinations = std::array<absl::Span<std::byte>, kNumInputTensors>;

  explicit ChunkAssembler(const Destinations& destinations);

  // Copies the chunk to its place. InvalidArgument, naming tensor, offset and size, if it runs past
  // the end of the tensor or overlaps what came before; also if what came before lies in too many
  // pieces (kMaxPieces), since each costs memory. After an error nothing more may be added.
  absl::Status Add(const TensorChunkView& chunk);

  // Whether every byte of every tensor has arrived.
  bool complete() const { return missing_bytes_ == 0; }
  // InvalidArgument that names the first bytes that have not arrived. Not to be called when
  // complete.
  absl::Status MissingError() const;

  static constexpr int kMaxPieces = 1 << 16;

 private:
  Destinations destinations_;
  std::array<IntervalSet, kNumInputTensors> received_;
  std::int64_t missing_bytes_ = 0;
};

}  // namespace attnd
