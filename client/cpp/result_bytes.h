// How large the tensors of an answer are.
#pragma once

#include <cstdint>
#include <optional>

#include "attnd/client.h"
#include "attnd/v1/attention.pb.h"

namespace attnd::internal {

// Sizes in bytes of the tensors that a server answers a spec with; 0 for one not asked for.
struct ResultBytes {
  std::int64_t out = 0;
  std::int64_t lse = 0;
  std::int64_t probs = 0;

  std::int64_t total() const { return out + lse + probs; }
};

// std::nullopt for a spec that no server accepts: an unknown type, sizes or sequences that are
// negative, or tensors whose bytes, each or together, overflow 63 bits.
std::optional<ResultBytes> ResultBytesOf(const v1::AttentionSpec& spec);

// The same for a merge; probs is 0.
std::optional<ResultBytes> ResultBytesOf(const MergeInputs& inputs);

}  // namespace attnd::internal
