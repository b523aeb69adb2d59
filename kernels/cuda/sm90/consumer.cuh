// A consumer warpgroup: the two products, the softmax between them, and the result of its 64 rows
// of every tile.
#pragma once

#include <limits>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/ptx/cluster.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/warpgroup.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"
#include "kernels/cuda/sm90/block_walk.cuh"
#include "kernels/cuda/sm90/epilogue.cuh"
#include "kernels/cuda/sm90/kernel_args.h"
#include "kernels/cuda/sm90/output_copy.cuh"
#include "kernels/cuda/sm90/row_softmax.cuh"
#include "kernels/cuda/sm90/score_arrays.cuh"
#include "kernels/cuda/sm90/score_options.cuh"
#include "kernels/cuda/sm90/score_unit.cuh"
#include "kernels/cuda/sm90/shared_map.cuh"
#include "kernels/cuda/sm90/slopes.cuh"

namespace attnd::cuda::sm90 {

// Named barriers; 0 is __syncthreads.
inline constexpr int kTurnBarrier = 1;  // + warpgroup: that warpgroup and the one before it
inline constexpr int kTailBarrier = 4;  // all consumers
inline constexpr int kPassBarrier = 5;  // + warpgroup: its own warps

// The work of a warpgroup never stops between tiles: the first score product of a tile is issued
// together with the last output product of the tile before, whose results are then stored while the
// tensor cores are busy.
template <typename Traits>
class Consumer {
 public:
  __device__ __forceinline__ Consumer(const KernelArgs& args, const SharedMap<Traits>& shared,
                                      int group)
      : args_(args), shared_(shared), group_(group), array_slots_(args) {}

  __device__ __forceinline__ void Run() {
    if (group_ == Traits::kConsumers - 1) GiveTurn();
    if (!FindTile()) return;
    Tile tile;
    SkipKeys();
    AwaitTurn();
    MultiplyScores(tile.scores);
    GiveTurn();
    for (bool more = true; more;) {
      AbsorbBlocks(tile);
      const Destination destination(Work(), group_);
      FreeWork();

      AwaitTurn();
      MultiplyOutput(tile.probs, tile.o);
      if constexpr (Traits::kJoinTiles) {
        more = FindTile();
        if (more) SkipKeys();
        // Without a next tile this multiplies what the last one left behind, and nobody looks at
        // the result: a branch around a product would make the compiler serialise all of them.
        MultiplyScores(tile.scores);
        GiveTurn();
        ptx::WgmmaWait<1>();
        FinishTile(destination, tile);
      } else {
        GiveTurn();
        ptx::WgmmaWait<0>();
        FinishTile(destination, tile);
        more = FindTile();
        if (!more) return;
        SkipKeys();
        AwaitTurn();
        MultiplyScores(tile.scores);
        GiveTurn();
      }
    }
    ptx::WgmmaWait<0>();
    if constexpr (Traits::kStagedOutput) Copy::AwaitRead();
  }

 private:
  static constexpr int kBlockN = Traits::kBlockN;
  static constexpr int kHeadDimV = Traits::kHeadDimV;
  static constexpr float kLowestFloat = std::numeric_limits<float>::lowest();
  using Copy = OutputCopy<Traits::kDtype, kHeadDimV, Traits::kVSwizzleBytes>;
  static constexpr ScoreKind kScoreKind = Traits::kScoreKind;
  using Unit = typename ScoreUnitOf<kScoreKind, Traits::kCapTerms, Traits::kHeadroom>::Type;
  using NearUnit = CappedUnit<Traits::kCapTerms, true>;

  // The tile at hand, all of it in registers. `probs` are a block's weights as the output product
  // takes them; `correction` is the factor that `o` needs before it where a maximum has moved.
  struct Tile {
    int block_begin;
    GroupBlocks blocks;
    RowSoftmax softmax;
    float scores[kBlockN / 2];
    std::uint32_t probs[kBlockN / 4];
    float o[kHeadDimV / 2];
    float correction[2];
    float fits[2];  // kCapped: CappedUnit::SurelyFits of the maxima
    BlockWalk<Traits> walk;
    Slope<Traits> slope;  // kSloped
    float shifts[2];      // kSloped: of the block at hand
  };

  // The key blocks of the tile, except for the last output product. On entry the first score
  // product is running. On return `probs` belongs to the v stage at hand.
  __device__ __forceinline__ void AbsorbBlocks(Tile& tile) {
    tile.block_begin = Work().block_begin;
    tile.blocks = Work().groups[group_];
    tile.walk = BlockWalk<Traits>(args_, Work(), tile.blocks.end);
    tile.softmax = RowSoftmax();
    if constexpr (kScoreKind == ScoreKind::kSloped) tile.slope = Slope<Traits>(args_, Work());
#pragma unroll
    for (int i = 0; i < kHeadDimV / 2; ++i) tile.o[i] = 0.0f;
    int block = tile.blocks.end - 1;
    ptx::WgmmaWait<0>();
    ptx::PinRegisters(tile.scores);
    FreeK();
    if (block == tile.block_begin) FreeQ();
    FinishScores<true>(block, tile);
    WeighFirstBlock(block, tile);
    if (args_.clear_v_tail) ClearTail();
    SkipValues();

    // From right to left: blocks that the right edge of what rows see may cut, blocks that all rows
    // see whole, and blocks that the left edge may cut, in the first loop again. Whole blocks are
    // most: a loop of their own keeps its instructions together.
    if constexpr (Traits::kMasks) {
      AbsorbWalkedBlocks(tile);
      return;
    }
    --block;
    if constexpr (kScoreKind == ScoreKind::kSloped) {
      AbsorbSlopedBlocks(block, tile);
    } else if constexpr (Traits::kWholeBlocksApart) {
      const int cut_until = max(tile.blocks.whole_end, tile.block_begin);
      const int whole_until = max(tile.blocks.whole_begin, tile.block_begin);
      for (int until = cut_until; block >= tile.block_begin; until = tile.block_begin) {
        for (; block >= until; --block) AbsorbBlock<true>(block, tile);
        for (; block >= whole_until; --block) AbsorbBlock<false>(block, tile);
      }
    } else {
      for (; block >= tile.block_begin; --block) AbsorbBlock<true>(block, tile);
    }
  }

  // The blocks from `block` on, under ALiBi: those on one side on which distances raise no score,
  // and others, kCut for AbsorbBlock.
  __device__ __forceinline__ void AbsorbSlopedBlocks(int block, Tile& tile) {
    for (; block >= tile.block_begin; --block) {
      if (tile.slope.OnOneSide(64 * group_, block) && tile.slope.Falls(64 * group_, block) &&
          !IsCut(block, tile)) {
        AbsorbBlock<false>(block, tile);
      } else {
        AbsorbBlock<true>(block, tile);
      }
    }
  }

  // The blocks after the first, as a mask, if there is one, leaves them.
  __device__ __forceinline__ void AbsorbWalkedBlocks(Tile& tile) {
    BlockWalk<Traits>& walk = tile.walk;
    while (!walk.AtLast()) {
      walk.Step();
      if (Traits::kScoreKind == ScoreKind::kMasked && walk.ClassFor(group_) == BlockClass::kFull &&
          !IsCut(walk.block(), tile)) {
        AbsorbBlock<false>(walk.block(), tile);
      } else {
        AbsorbBlock<true>(walk.block(), tile);
      }
    }
  }

  // The score product of a block, the output product of the block before it, and the softmax
  // between the two. kCut: some rows may not see some of the block's keys.
  template <bool kCut>
  __device__ __forceinline__ void AbsorbBlock(int block, Tile& tile) {
    MultiplyBlock(block, tile);
    FinishScores<kCut>(block, tile);
    if constexpr (kScoreKind == ScoreKind::kSloped && kCut) {
      WeighByMaxima(tile);
    } else {
      WeighByGuess<kCut>(block, tile);
    }
  }

  // Starts the score product of a block and the output product of the block before it; waits for
  // the scores.
  __device__ __forceinline__ void MultiplyBlock(int block, Tile& tile) {
    ptx::MbarrierWait(shared_.KFull(k_.stage()), k_.parity());
    AwaitTurn();
    MultiplyScores(tile.scores);
    MultiplyOutput(tile.probs, tile.o);
    GiveTurn();
    ptx::WgmmaWait<1>();
    ptx::PinRegisters(tile.scores);
    FreeK();
    if (block == tile.block_begin) FreeQ();
  }

  // The weights of a tile's first block, which has no output product before it.
  __device__ __forceinline__ void WeighFirstBlock(int block, Tile& tile) {
    tile.softmax.Raise(tile.scores, BlockUnit(tile), tile.correction);
    if constexpr (kScoreKind == ScoreKind::kCapped) {
      if (!IsSettled(tile) && !IsCut(block, tile)) {
        MakeFinite(tile.scores);
        tile.softmax.Raise(tile.scores, BlockUnit(tile), tile.correction);
      }
    }
    WeighLooked(tile, tile.softmax.sum);
    RememberFits(tile);
  }

  // The weights of a block, worked out before anybody has looked at its scores: as a rule they
  // hardly exceed the maxima so far, no maximum moves, and nothing is rescaled. What the weights
  // add up to tells; where it is too much, the block is weighed once more.
  template <bool kCut>
  __device__ __forceinline__ void WeighByGuess(int block, Tile& tile) {
    float sums[2];
    GuessWeights(tile, sums);
    if (!__all_sync(0xffffffff, Fits<kCut>(sums, tile))) {
      if constexpr (kScoreKind == ScoreKind::kCapped) {
        if (!kCut || !IsCut(block, tile)) MakeFinite(tile.scores);
      }
      const bool raised = tile.softmax.RaiseWhereFar(tile.scores, BlockUnit(tile), tile.correction);
      WeighLooked(tile, sums);
      if (raised) Rescale(tile);
      RememberFits(tile);
    }
    tile.softmax.sum[0] += sums[0];
    tile.softmax.sum[1] += sums[1];
  }

  // The same for a block that is likely to raise maxima: it is looked at first.
  __device__ __forceinline__ void WeighByMaxima(Tile& tile) {
    float sums[2];
    tile.softmax.Raise(tile.scores, BlockUnit(tile), tile.correction);
    AwaitOutputAfter(tile.softmax.sum[0] + tile.softmax.sum[1], tile);
    WeighLooked(tile, sums);
    Rescale(tile);
    tile.softmax.sum[0] += sums[0];
    tile.softmax.sum[1] += sums[1];
  }

  // The unit of the block's scores, and of the maxima of the tile.
  __device__ __forceinline__ auto BlockUnit(const Tile& tile) const {
    if constexpr (kScoreKind == ScoreKind::kSloped) {
      return SlopedUnit(tile.slope.unit(), tile.shifts);
    } else {
      return Unit(args_);
    }
  }

  // `probs` and sums of a block that the maxima count already.
  __device__ __forceinline__ void WeighLooked(Tile& tile, float (&sums)[2]) const {
    if constexpr (kScoreKind == ScoreKind::kCapped) {
      if (IsSettled(tile)) {
        WeighRows(NearUnit(args_), tile, sums);
      } else {
        WeighRows(Unit(args_), tile, sums);
      }
    } else {
      WeighRows(BlockUnit(tile), tile, sums);
    }
  }
  template <typename AnyUnit>
  static __device__ __forceinline__ void WeighRows(const AnyUnit& unit, Tile& tile,
                                                   float (&sums)[2]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      sums[r] = tile.softmax.template Weigh<Traits::kDtype>(r, tile.scores, unit, tile.probs);
    }
  }

  // The same by the maxima of the blocks before. The first row's weights have registers of their
  // own until the output product, which reads `probs`, has ended.
  __device__ __forceinline__ void GuessWeights(Tile& tile, float (&sums)[2]) {
    const RowSoftmax& softmax = tile.softmax;
    const auto unit = GuessUnit(tile);
    if constexpr (Traits::kWeighsAhead) {
      float weights[kBlockN / 4];
      sums[0] = softmax.GuessApart(0, tile.scores, unit, weights);
      AwaitOutputAfter(sums[0], tile);
#pragma unroll
      for (int i = 0; i < kBlockN / 8; ++i)
        tile.probs[2 * i] = Element<Traits::kDtype>::Pack(weights[2 * i], weights[2 * i + 1]);
    } else {
      AwaitOutput(tile);
      sums[0] = softmax.template Guess<Traits::kDtype>(0, tile.scores, unit, tile.probs);
    }
    sums[1] = softmax.template Guess<Traits::kDtype>(1, tile.scores, unit, tile.probs);
  }
  __device__ __forceinline__ auto GuessUnit(const Tile& tile) const {
    if constexpr (kScoreKind == ScoreKind::kCapped) {
      return NearUnit(args_);
    } else {
      return BlockUnit(tile);
    }
  }

  // Whether this thread's sums tell that its guesses were right. NaN and infinity never fit.
  template <bool kCut>
  __device__ __forceinline__ bool Fits(const float (&sums)[2], const Tile& tile) const {
    if constexpr (kScoreKind == ScoreKind::kCapped) {
      const bool fits = sums[0] < tile.fits[0] && sums[1] < tile.fits[1];
      return args_.cap.looks ? fits && NoneFarBelow<kCut>(tile.scores) : fits;
    } else {
      constexpr float kSurelyFits = LargestWeight<Unit::kHeadroom>::kSurelyFits;
      return sums[0] < kSurelyFits && sums[1] < kSurelyFits;
    }
  }
  __device__ __forceinline__ void RememberFits(Tile& tile) const {
    if constexpr (kScoreKind == ScoreKind::kCapped) {
#pragma unroll
      for (int r = 0; r < 2; ++r) tile.fits[r] = NearUnit(args_).SurelyFits(tile.softmax.max[r]);
    }
  }

  // With a softcap: whether NearUnit will do for a warp's rows, which a block's maxima have been
  // raised by.
  __device__ __forceinline__ bool IsSettled(const Tile& tile) const {
    const RowSoftmax& softmax = tile.softmax;
    return __all_sync(0xffffffff,
                      args_.cap.Settles(softmax.max[0]) && args_.cap.Settles(softmax.max[1]));
  }

  // Of a block that an edge may cut -inf means hidden.
  template <bool kCut>
  __device__ __forceinline__ bool NoneFarBelow(const float (&scores)[kBlockN / 2]) const {
    float least = 0.0f;
#pragma unroll
    for (int i = 0; i < kBlockN / 2; ++i) {
      const bool hidden = kCut && scores[i] == NegativeInfinity();
      least = hidden ? least : fminf(least, scores[i]);
    }
    return least > -args_.cap.near_limit;
  }

  // Waits for the output product, and gives its v back.
  __device__ __forceinline__ void AwaitOutput(Tile& tile) {
    ptx::WgmmaWait<0>();
    ptx::PinRegisters(tile.o);
    FreeV();
  }
  // The same, but not before `value`, which is not negative, is known.
  __device__ __forceinline__ void AwaitOutputAfter(float value, Tile& tile) {
    ptx::WgmmaWaitAfter<0>(value, shared_.Q(0));
    ptx::PinRegisters(tile.o);
    FreeV();
  }

  // Options, and -inf for what rows may not see.
  template <bool kCut>
  __device__ __forceinline__ void FinishScores(int block, Tile& tile) {
    if constexpr (Traits::kScoreArrays && kCut) ApplyOptions(block, tile);
    if constexpr (kScoreKind == ScoreKind::kSloped) {
      if (!kCut || tile.slope.OnOneSide(64 * group_, block)) {
        tile.slope.template Apply<true>(ThreadRow(), FirstKey(block), tile.scores, tile.shifts);
      } else {
        tile.slope.template Apply<false>(ThreadRow(), FirstKey(block), tile.scores, tile.shifts);
      }
    }
    if constexpr (kScoreKind == ScoreKind::kCapped) {
      if (kCut && IsCut(block, tile)) MakeFinite(tile.scores);
    }
    if (kCut && block >= tile.blocks.whole_end) HideKeysOnTheRight(block, tile.scores);
    if (kCut && block < tile.blocks.whole_begin) HideKeysOnTheLeft(block, tile.scores);
  }
  static __device__ __forceinline__ bool IsCut(int block, const Tile& tile) {
    return block >= tile.blocks.whole_end || block < tile.blocks.whole_begin;
  }

  // A product of -inf is capped like any other, where a score of -inf is hidden.
  static __device__ __forceinline__ void MakeFinite(float (&scores)[kBlockN / 2]) {
#pragma unroll
    for (int i = 0; i < kBlockN / 2; ++i) {
      if (scores[i] == NegativeInfinity()) scores[i] = kLowestFloat;
    }
  }

  // Once the last output product is done: gives v back and stores the results.
  __device__ __forceinline__ void FinishTile(const Destination& destination, Tile& tile) {
    ptx::PinRegisters(tile.o);
    FreeV();
    tile.softmax.SumAcrossQuad();
    FinishRows<kHeadDimV>(args_.p, destination, BlockUnit(tile), tile.softmax, tile.o);
    if constexpr (Traits::kStagedOutput) {
      // The same in all lanes, and known to be so to the compiler: it loops over the lanes of a
      // copy otherwise.
      const int warp = __shfl_sync(0xffffffff, threadIdx.x % 128 / 32, 0);
      const int warp_row = warp * kWarpRows;
      if (__all_sync(0xffffffff,
                     args_.copy_out && warp_row + kWarpRows <= destination.stored_rows)) {
        Copy(shared_.Out(4 * group_ + warp))
            .Start(&args_.out_map, destination.row + warp_row, destination.head, destination.batch,
                   tile.o);
        return;
      }
    }
    StoreRows<Traits::kDtype, kHeadDimV>(args_.p, destination, tile.o);
  }

  // Waits for the next tile, which Work() then describes. False when there are no more.
  __device__ __forceinline__ bool FindTile() {
    ptx::MbarrierWait(shared_.QFull(q_.stage()), q_.parity());
    // Complete before q was even asked for: this never waits, but orders the scheduler's writes
    // before this thread's reads without a detour over the producer.
    ptx::MbarrierWait(shared_.WorkFull(work_slot_.stage()), work_slot_.parity());
    return Work().batch >= 0;
  }

  // Blocks on the right that none of this warpgroup's rows may see, though rows of other warpgroups
  // do.
  __device__ __forceinline__ int Skipped() const {
    return Work().block_end - Work().groups[group_].end;
  }

  // Passes over the k stages that are skipped early, and waits for the next. SkipValues must
  // follow.
  __device__ __forceinline__ void SkipKeys() {
    for (int i = min(Skipped(), kSkippedEarly); i > 0; --i) {
      ptx::MbarrierWait(shared_.KFull(k_.stage()), k_.parity());
      AwaitOwnWarps();
      FreeK();
    }
    ptx::MbarrierWait(shared_.KFull(k_.stage()), k_.parity());
  }

  // One thread gives a stage back for its warpgroup. After a product all four warps have seen the
  // stage full; where there is none, they wait for each other here.
  __device__ __forceinline__ void AwaitOwnWarps() {
    ptx::NamedBarrierSync(kPassBarrier + group_, ptx::kWarpgroupThreads);
  }

  // Passes over the v stages of skipped blocks, the k stages that are left, and the turns that the
  // others need for them.
  __device__ __forceinline__ void SkipValues() {
    const int skipped = Skipped();
    for (int i = 0; i < skipped; ++i) {
      AwaitTurn();
      GiveTurn();
      if (i >= kSkippedEarly) {
        ptx::MbarrierWait(shared_.KFull(k_.stage()), k_.parity());
        AwaitOwnWarps();
        FreeK();
      }
      ptx::MbarrierWait(shared_.VFull(v_.stage()), v_.parity());
      AwaitOwnWarps();
      FreeV();
    }
  }

  // Set the scores of keys to -inf that lie past what a row may see, or before it.
  __device__ __forceinline__ void HideKeysOnTheRight(int block,
                                                     float (&scores)[kBlockN / 2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int end = min(Work().keys_end + ThreadRow() + 8 * r, Work().seqlen_k);
      Hide(ScoresFrom(end - FirstKey(block)), r, scores);
    }
  }
  __device__ __forceinline__ void HideKeysOnTheLeft(int block, float (&scores)[kBlockN / 2]) const {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int begin = Work().keys_begin + ThreadRow() + 8 * r;
      Hide(~ScoresFrom(begin - FirstKey(block)), r, scores);
    }
  }

  // A bit for each score that a thread has of a row, two in every 8 keys: set for those of `key`,
  // counted from the thread's first of the block, and after. Seven bits at a time become predicates
  // in one instruction, where comparisons would take one each.
  static __device__ __forceinline__ std::uint32_t ScoresFrom(int key) {
    const unsigned ahead = max(key, 0);
    return __funnelshift_lc(0, 0xffffffff, ahead / 8 * 2 + min(ahead % 8, 2u));
  }
  static __device__ __forceinline__ void Hide(std::uint32_t hidden, int r,
                                              float (&scores)[kBlockN / 2]) {
    static_assert(kBlockN / 4 <= 32);
#pragma unroll
    for (int i = 0; i < kBlockN / 4; ++i) {
      float& score = scores[PlaceInRow(r, i)];
      score = (hidden >> i & 1) != 0 ? NegativeInfinity() : score;
    }
  }

  __device__ __forceinline__ void ApplyOptions(int block, Tile& tile) {
    if (!Work().HasRows(group_)) return;
    const BlockClass c = tile.walk.ClassFor(group_);
    const bool copied = array_slots_.BytesFor(c) > 0;
    const int slot = array_slots_.Slot(arrays_passed_);
    if (copied)
      ptx::MbarrierWait(shared_.ArrayFull(group_, slot), array_slots_.Parity(arrays_passed_));
    const ScorePlace place = {Work().batch, Work().head, Work().first_row + ThreadRow(),
                              FirstKey(block)};
    ScoreOptions<Traits>(args_, shared_.Arrays(group_) + slot * array_slots_.bytes(), array_slots_,
                         place)
        .Apply(c, tile.scores);
    if (!copied) return;
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::MbarrierArrive(shared_.ArrayFree(group_, slot));
    ++arrays_passed_;
  }

  // Starts scores = q k^T for this warpgroup's rows and the q and k stages at hand.
  __device__ __forceinline__ void MultiplyScores(float (&scores)[kBlockN / 2]) {
    constexpr int kSwizzle = Traits::kQkSwizzleBytes;
    constexpr int kStepsPerChunk = kSwizzle / 32;
    const ptx::MatrixDescriptor<kSwizzle, 16, 8 * kSwizzle> q(shared_.Q(q_.stage()) +
                                                              group_ * 64 * kSwizzle);
    const ptx::MatrixDescriptor<kSwizzle, 16, 8 * kSwizzle> k(shared_.K(k_.stage()));
    ptx::WgmmaFence();
    ptx::WgmmaSharedShared<Traits::kDtype, kBlockN, false>(scores, q.At(0), k.At(0));
#pragma unroll
    for (int step = 1; step < Traits::kHeadDim / 16; ++step) {
      const int chunk = step / kStepsPerChunk;
      const int within = step % kStepsPerChunk * 32;
      ptx::WgmmaSharedShared<Traits::kDtype, kBlockN, true>(
          scores, q.At(chunk * Traits::kBlockM * kSwizzle + within),
          k.At(chunk * kBlockN * kSwizzle + within));
    }
    ptx::WgmmaCommit();
  }

  // Starts o += probs v for the v stage at hand, once it is full.
  __device__ __forceinline__ void MultiplyOutput(const std::uint32_t (&probs)[kBlockN / 4],
                                                 float (&o)[kHeadDimV / 2]) {
    constexpr int kSwizzle = Traits::kVSwizzleBytes;
    ptx::MbarrierWait(shared_.VFull(v_.stage()), v_.parity());
    const ptx::MatrixDescriptor<kSwizzle, kBlockN * kSwizzle, 8 * kSwizzle> v(
        shared_.V(v_.stage()));
    ptx::PinRegisters(o);
    ptx::WgmmaFence();
#pragma unroll
    for (int step = 0; step < kBlockN / 16; ++step) {
      ptx::WgmmaRegisterShared<Traits::kDtype, kHeadDimV>(o, probs[4 * step], probs[4 * step + 1],
                                                          probs[4 * step + 2], probs[4 * step + 3],
                                                          v.At(step * 16 * kSwizzle));
    }
    ptx::WgmmaCommit();
  }

  static __device__ __forceinline__ void Rescale(Tile& tile) {
#pragma unroll
    for (int i = 0; i < kHeadDimV / 2; ++i) tile.o[i] *= tile.correction[(i >> 1) & 1];
  }

  // Writes zeros to the rows of the v stage at hand from `rows` on: their probabilities are 0, but
  // 0 * NaN is NaN.
  __device__ __forceinline__ void ClearTail() {
    const int rows = Work().seqlen_k - (Work().block_end - 1) * kBlockN;
    if (rows >= kBlockN) return;
    ptx::MbarrierWait(shared_.VFull(v_.stage()), v_.parity());
    constexpr int kVectorsPerRow = Traits::kVSwizzleBytes / 16;
    constexpr int kChunks = kHeadDimV * 2 / Traits::kVSwizzleBytes;
    const int first = rows * kVectorsPerRow;
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const std::uint32_t base = shared_.V(v_.stage()) + chunk * kBlockN * Traits::kVSwizzleBytes;
      for (int i = first + threadIdx.x - 128; i < kBlockN * kVectorsPerRow;
           i += 128 * Traits::kConsumers) {
        ptx::StoreSharedZeros(base + i * 16);
      }
    }
    ptx::FenceProxyAsyncShared();
    ptx::NamedBarrierSync(kTailBarrier, 128 * Traits::kConsumers);
  }

  // This thread has read all that it wants of the TileWork. Every lane says so for itself: the race
  // checker knows no other order between its reads and the scheduler's writes.
  __device__ __forceinline__ void FreeWork() {
    ptx::MbarrierArrive(shared_.WorkFree(work_slot_.stage()));
    work_slot_.Advance();
  }
  // This warp's part of the last product that reads q is done.
  __device__ __forceinline__ void FreeQ() {
    if (threadIdx.x % 32 == 0) ptx::MbarrierArrive(shared_.QFree(q_.stage()));
    q_.Advance();
  }
  __device__ __forceinline__ void FreeK() {
    GiveBack(shared_.KFree(k_.stage()));
    k_.Advance();
  }
  __device__ __forceinline__ void FreeV() {
    GiveBack(shared_.VFree(v_.stage()));
    v_.Advance();
  }
  // A product's reads of k or v end for the whole warpgroup at once: one thread speaks for it, to
  // each block that loads them.
  static __device__ __forceinline__ void GiveBack(std::uint32_t free_barrier) {
    const unsigned thread = threadIdx.x % 128;
    if constexpr (Traits::kClusterSize == 1) {
      if (thread == 0) ptx::MbarrierArrive(free_barrier);
    } else {
      if (thread < Traits::kClusterSize) ptx::MbarrierArriveAt(free_barrier, thread);
    }
  }

  __device__ __forceinline__ void AwaitTurn() {
    if constexpr (Traits::kPingPong) ptx::NamedBarrierSync(kTurnBarrier + group_, 256);
  }
  __device__ __forceinline__ void GiveTurn() {
    if constexpr (Traits::kPingPong) {
      ptx::NamedBarrierArrive(kTurnBarrier + (group_ == Traits::kConsumers - 1 ? 0 : group_ + 1),
                              256);
    }
  }

  // The tile at hand, until FreeWork.
  __device__ __forceinline__ const TileWork& Work() const {
    return shared_.Work(work_slot_.stage());
  }
  // The key of this thread's first score of a block.
  static __device__ __forceinline__ int FirstKey(int block) {
    return block * kBlockN + static_cast<int>(threadIdx.x % 4 * 2);
  }
  // This thread's first row in its tile; the other is 8 below.
  __device__ __forceinline__ int ThreadRow() const { return group_ * 64 + ThreadRowInGroup(); }

  const KernelArgs& args_;
  const SharedMap<Traits>& shared_;
  const int group_;
  RingPosition<Traits::kWorkSlots> work_slot_;
  RingPosition<Traits::kQStages> q_;
  RingPosition<Traits::kStages> k_;
  RingPosition<Traits::kStages> v_;
  const ArraySlots<Traits> array_slots_;
  std::uint32_t arrays_passed_ = 0;
};

}  // namespace attnd::cuda::sm90
