// Sizes up to which the Hopper kernel's 32-bit indices reach.
#pragma once

#include <cstdint>

namespace attnd::cuda::sm90 {

// Rows and keys of a sequence, and of all packed ones together: sums of three must fit in 32 bits.
inline constexpr std::int64_t kMaxSeqlen = std::int64_t{1} << 29;
inline constexpr std::int64_t kMaxTiles = std::int64_t{1} << 30;

// No specialisation has tiles of fewer query rows.
inline constexpr int kSmallestBlockM = 128;

}  // namespace attnd::cuda::sm90
