// Tile sizes and the shared-memory plan of the sm_80 fused kernel for 16-bit inputs.
#pragma once

#include <cstdint>

namespace attnd::cuda::sm80 {

// kHeadDim is 32, 64, 96, 128, 192 or 256: the wider of head_dim and head_dim_v, rounded up; the
// missing columns are zeros.
//
// A block computes kBlockM query rows of one head, kBlockN keys at a time; a warp owns kFragmentsM
// fragments of 16 rows.
//
// The plain variant takes problems whose scores need no more than a positive scale
// (finished_scores.h) and a length, causal or window limit. It uses 32 rows a warp where registers
// allow: with 16, reading the keys' fragments from shared memory takes longer than multiplying
// them. The general variant takes every option, and small problems. Both visit keys in the same
// blocks and compute a row the same way, so that a row's bits do not depend on the variant.
template <int kHeadDim, bool kGeneral>
struct FusedTile {
  static_assert(kHeadDim % 32 == 0 && kHeadDim <= 256);
  static constexpr int kFragmentsM = !kGeneral && kHeadDim <= 128 ? 2 : 1;
  static constexpr int kWarps = !kGeneral && kHeadDim > 128 ? 8 : 4;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlockM = 16 * kFragmentsM * kWarps;
  static constexpr int kBlockN = kHeadDim <= 64 ? 128 : 64;

  static constexpr int kQueryBytes = 2 * kBlockM * kHeadDim;
  static constexpr int kKeyBytes = 2 * kBlockN * kHeadDim;
  static constexpr int kValueBytes = 2 * kBlockN * kHeadDim;
  static constexpr int kTileBytes = kQueryBytes + kKeyBytes + kValueBytes;
  static constexpr int kWorkBytes = 128;  // room for a TileWork behind the tiles
  static constexpr int kSharedBytes = kTileBytes + kWorkBytes;
};

// Query rows up to which the general variant's smaller tile is used for every problem.
inline constexpr std::int64_t kShortSeqlenQ = 64;

}  // namespace attnd::cuda::sm80
