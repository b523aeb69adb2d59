// Tile shapes of the Hopper kernel and the shared-memory plan that follows from them. How to add a
// head_dim: docs/kernels-hopper.md.
#pragma once

#include "kernels/cuda/sm90/cap_constants.h"
#include "kernels/cuda/sm90/score_kind.h"
#include "kernels/cuda/sm90/tile_classes.h"
#include "kernels/data_type.h"

namespace attnd::cuda::sm90 {

// One specialisation: kConsumers warpgroups of 64 query rows each share tiles of kBlockN keys.
//
// kPingPong: warpgroups take turns at the tensor cores, so that one's softmax runs under another's
// products.
template <DataType kElement, int kQkDim, int kVDim, int kNumConsumers, int kKeys, int kNumQStages,
          int kNumStages, bool kTakesTurns, ScoreKind kKind>
struct TileTraits {
  // The same tiles for another kind of scores.
  template <ScoreKind kOther>
  using For = TileTraits<kElement, kQkDim, kVDim, kNumConsumers, kKeys, kNumQStages, kNumStages,
                         kTakesTurns, kOther>;

  static constexpr DataType kDtype = kElement;
  static constexpr int kHeadDim = kQkDim;
  static constexpr int kHeadDimV = kVDim;
  static constexpr int kConsumers = kNumConsumers;
  static constexpr int kBlockM = 64 * kNumConsumers;
  static constexpr int kBlockN = kKeys;
  // q tiles held at a time; 2: the next one is there when a tile ends.
  static constexpr int kQStages = kNumQStages;
  static constexpr int kStages = kNumStages;  // k tiles held at a time, and as many of v
  static constexpr bool kPingPong = kTakesTurns;
  static constexpr ScoreKind kScoreKind = kKind;
  static constexpr int kClusterSize = 1;     // Paired has another
  static constexpr bool kBiasAlone = false;  // BiasAlone has it
  // The fewest keys with which pairs of blocks pay; 0: they never do. (Measured, at the clock that
  // the power limit leaves: +2 to 6 % from here on.)
  static constexpr int kKeysForPairs = kQkDim == 256 ? 1024 : kQkDim >= 128 ? 4096 : 0;
  static constexpr bool kFinishes =
      kKind == ScoreKind::kFinished || kKind == ScoreKind::kFinishedMasked;
  static constexpr bool kMasks = kKind == ScoreKind::kMasked || kKind == ScoreKind::kFinishedMasked;
  static constexpr int kCapTerms = CapTerms(kElement);
  // With a second q tile at hand, the first score product of a tile runs while the results of the
  // tile before are stored.
  static constexpr bool kJoinTiles = kNumQStages > 1;
  // Weights begin so many powers of 2 under 1, which leaves a row more room to grow
  // (LargestWeight). float16 has none below: it would lose bits of small weights. Softcap and ALiBi
  // have units without.
  static constexpr bool kHasHeadroom =
      kElement == DataType::kBFloat16 && kKind != ScoreKind::kCapped && kKind != ScoreKind::kSloped;
  static constexpr int kHeadroom = kHasHeadroom ? 15 : 0;
  // The weights of a thread's first row are worked out before the output product of the block
  // before has ended. (Measured: -2 to +2 % at 128. Three warpgroups leave no registers for them,
  // and no gap to fill.)
  static constexpr bool kWeighsAhead = kNumConsumers == 2;
  // Blocks that all rows see whole have a loop of their own. (Measured: +1 to 2 % where the loop
  // then is short.)
  static constexpr bool kWholeBlocksApart = !kFinishes;

  // Results go through shared memory where it has room for them. Where it holds two q tiles it has;
  // kSharedBytes is checked below.
  static constexpr bool kStagedOutput = kJoinTiles;

  static constexpr TileShape kShape = {kBlockM, kBlockN};
  static constexpr int kThreads = 128 * (kNumConsumers + 1);
  // 64 Ki registers: 128 * (producer + consumers * consumer) <= 65536, each a multiple of 8.
  // Whoever brings bias and mask needs more than 32.
  static constexpr bool kScoreArrays = kFinishes || kMasks;
  static constexpr int kProducerRegisters = kNumConsumers == 2 ? 40 : kScoreArrays ? 56 : 32;
  static constexpr int kConsumerRegisters = kNumConsumers == 2 ? 232 : kScoreArrays ? 152 : 160;

  // Tiles lie in column chunks of one swizzle span, all rows of a chunk together.
  static constexpr int kQkSwizzleBytes = kQkDim % 64 == 0 ? 128 : 64;
  static constexpr int kVSwizzleBytes = kVDim % 64 == 0 ? 128 : 64;
  static constexpr int kQBytes = kBlockM * kQkDim * 2;
  static constexpr int kKBytes = kBlockN * kQkDim * 2;
  static constexpr int kVBytes = kBlockN * kVDim * 2;
  static constexpr int kOutBytes = kStagedOutput ? kBlockM * kVDim * 2 : 0;

  static constexpr int kWorkSlots = 2;  // TileWorks: the tile at hand, and the next
  static constexpr int kWorkBytes = 112;
  static constexpr int kSchedulerBytes = 12;

  // Blocks of bias and mask that wait for a warpgroup: room for two of the mask; for any options,
  // for one of a float32 bias and mask together, or for two of a 16-bit bias. Their rows are copied
  // longer than wanted where the 8 rows that a warp reads at a time would begin in the same banks.
  static constexpr int kBiasPitch = kBlockN + 8;
  static constexpr int kMaskPitch = kBlockN % 32 == 0 ? kBlockN + 16 : kBlockN;
  static constexpr int kWideBiasBytes = 64 * kBiasPitch * 4;
  static constexpr int kBiasBytes = 64 * kBiasPitch * 2;
  static constexpr int kMaskBytes = 64 * kMaskPitch;
  static constexpr int kArrayBytes = kKind == ScoreKind::kMasked ? 2 * kMaskBytes
                                     : kFinishes ? kWideBiasBytes + (kMasks ? kMaskBytes : 0)
                                                 : 0;
  static constexpr int kArrayBarriers = kScoreArrays ? 2 * kNumConsumers : 0;

  static constexpr int kBarriers =
      2 * (kWorkSlots + kQStages + 2 * kStages) + 1 + 2 * kArrayBarriers;

  // Shared memory, in bytes from a 1024-byte boundary.
  static constexpr int kQOffset = 0;
  static constexpr int kKOffset = kQOffset + kQStages * kQBytes;
  static constexpr int kVOffset = kKOffset + kStages * kKBytes;
  static constexpr int kOutOffset = kVOffset + kStages * kVBytes;
  static constexpr int kArrayOffset = kOutOffset + kOutBytes;
  static constexpr int kBarrierOffset = kArrayOffset + kNumConsumers * kArrayBytes;
  static constexpr int kWorkOffset = (kBarrierOffset + 8 * kBarriers + 15) / 16 * 16;
  static constexpr int kSharedBytes = kWorkOffset + kWorkSlots * kWorkBytes + kSchedulerBytes;

  static_assert(kQkDim % 32 == 0 && kVDim % 32 == 0 && kBlockN % 16 == 0);
  static_assert(kQBytes % 1024 == 0 && kKBytes % 1024 == 0 && kVBytes % 1024 == 0 &&
                kOutBytes % 1024 == 0 && kWideBiasBytes % 128 == 0 && kBiasBytes % 128 == 0 &&
                kMaskBytes % 128 == 0);
  static_assert(kSharedBytes <= 232448, "more than a block may have");
};

// The same for clusters of two blocks that work on neighbouring tiles, which see the same keys:
// each loads half of every k and v tile for both. The results are the same, bit by bit.
template <typename Traits>
struct Paired : Traits {
  static constexpr int kClusterSize = 2;
  static_assert(Traits::kBlockN / kClusterSize % 8 == 0, "swizzling repeats after 8 rows");
};

// The same for problems with a bias that the copy engine brings, and nothing else: code that jumps
// over no other option. The results are the same, bit by bit.
template <typename Traits>
struct BiasAlone : Traits {
  static constexpr bool kBiasAlone = true;
};

// The specialisation for each pair of widths and kind of scores: warpgroups, keys, q stages, k and
// v stages, ping-pong.
template <DataType kDtype, int kHeadDim, int kHeadDimV, ScoreKind kScoreKind>
struct ChooseTraits;
// Softcap and ALiBi leave raw products raw, and take the tiles of problems without.
template <DataType kDtype, int kHeadDim, int kHeadDimV>
struct ChooseTraits<kDtype, kHeadDim, kHeadDimV, ScoreKind::kCapped> {
  using Raw = typename ChooseTraits<kDtype, kHeadDim, kHeadDimV, ScoreKind::kRaw>::Type;
  using Type = typename Raw::template For<ScoreKind::kCapped>;
};
template <DataType kDtype, int kHeadDim, int kHeadDimV>
struct ChooseTraits<kDtype, kHeadDim, kHeadDimV, ScoreKind::kSloped> {
  using Raw = typename ChooseTraits<kDtype, kHeadDim, kHeadDimV, ScoreKind::kRaw>::Type;
  using Type = typename Raw::template For<ScoreKind::kSloped>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 64, 64, ScoreKind::kRaw> {
  using Type = TileTraits<kDtype, 64, 64, 3, 128, 2, 2, true, ScoreKind::kRaw>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 64, 64, ScoreKind::kMasked> {
  using Type = TileTraits<kDtype, 64, 64, 3, 112, 2, 2, true, ScoreKind::kMasked>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 64, 64, ScoreKind::kFinished> {
  using Type = TileTraits<kDtype, 64, 64, 2, 112, 1, 2, true, ScoreKind::kFinished>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 64, 64, ScoreKind::kFinishedMasked> {
  using Type = TileTraits<kDtype, 64, 64, 2, 112, 1, 2, true, ScoreKind::kFinishedMasked>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 96, 96, ScoreKind::kRaw> {
  using Type = TileTraits<kDtype, 96, 96, 3, 112, 2, 2, true, ScoreKind::kRaw>;
};
// Three warpgroups leave no registers for slopes.
template <DataType kDtype>
struct ChooseTraits<kDtype, 96, 96, ScoreKind::kSloped> {
  using Type = TileTraits<kDtype, 96, 96, 2, 128, 2, 2, true, ScoreKind::kSloped>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 96, 96, ScoreKind::kMasked> {
  using Type = TileTraits<kDtype, 96, 96, 2, 128, 2, 2, true, ScoreKind::kMasked>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 96, 96, ScoreKind::kFinished> {
  using Type = TileTraits<kDtype, 96, 96, 2, 112, 1, 2, true, ScoreKind::kFinished>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 96, 96, ScoreKind::kFinishedMasked> {
  using Type = TileTraits<kDtype, 96, 96, 2, 112, 1, 2, true, ScoreKind::kFinishedMasked>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 128, 128, ScoreKind::kRaw> {
  using Type = TileTraits<kDtype, 128, 128, 2, 128, 2, 2, true, ScoreKind::kRaw>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 128, 128, ScoreKind::kMasked> {
  using Type = TileTraits<kDtype, 128, 128, 2, 128, 1, 2, true, ScoreKind::kMasked>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 128, 128, ScoreKind::kFinished> {
  using Type = TileTraits<kDtype, 128, 128, 2, 112, 1, 2, true, ScoreKind::kFinished>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 128, 128, ScoreKind::kFinishedMasked> {
  using Type = TileTraits<kDtype, 128, 128, 2, 112, 1, 2, true, ScoreKind::kFinishedMasked>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 192, 128, ScoreKind::kRaw> {
  using Type = TileTraits<kDtype, 192, 128, 2, 128, 1, 2, true, ScoreKind::kRaw>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 192, 128, ScoreKind::kMasked> {
  using Type = TileTraits<kDtype, 192, 128, 2, 112, 1, 2, true, ScoreKind::kMasked>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 192, 128, ScoreKind::kFinished> {
  using Type = TileTraits<kDtype, 192, 128, 2, 80, 1, 2, true, ScoreKind::kFinished>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 192, 128, ScoreKind::kFinishedMasked> {
  using Type = TileTraits<kDtype, 192, 128, 2, 80, 1, 2, true, ScoreKind::kFinishedMasked>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 192, 192, ScoreKind::kRaw> {
  using Type = TileTraits<kDtype, 192, 192, 2, 112, 1, 2, true, ScoreKind::kRaw>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 192, 192, ScoreKind::kMasked> {
  using Type = TileTraits<kDtype, 192, 192, 2, 96, 1, 2, true, ScoreKind::kMasked>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 192, 192, ScoreKind::kFinished> {
  using Type = TileTraits<kDtype, 192, 192, 2, 80, 1, 2, true, ScoreKind::kFinished>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 192, 192, ScoreKind::kFinishedMasked> {
  using Type = TileTraits<kDtype, 192, 192, 2, 80, 1, 2, true, ScoreKind::kFinishedMasked>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 256, 256, ScoreKind::kRaw> {
  using Type = TileTraits<kDtype, 256, 256, 2, 80, 1, 2, true, ScoreKind::kRaw>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 256, 256, ScoreKind::kMasked> {
  using Type = TileTraits<kDtype, 256, 256, 2, 64, 1, 2, false, ScoreKind::kMasked>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 256, 256, ScoreKind::kFinished> {
  using Type = TileTraits<kDtype, 256, 256, 2, 48, 1, 2, false, ScoreKind::kFinished>;
};
template <DataType kDtype>
struct ChooseTraits<kDtype, 256, 256, ScoreKind::kFinishedMasked> {
  using Type = TileTraits<kDtype, 256, 256, 2, 48, 1, 2, false, ScoreKind::kFinishedMasked>;
};

}  // namespace attnd::cuda::sm90
