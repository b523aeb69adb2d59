// One tile of work, as the scheduler warp hands it to the producer and the consumers.
#pragma once

#include "kernels/cuda/sm90/kernel_args.h"
#include "kernels/cuda/sm90/limits.h"
#include "kernels/sequence_bounds.h"

namespace attnd::cuda::sm90 {

// Blocks that a warpgroup passes over before its first score product of a tile. One is always in
// shared memory, or on its way there, whatever the others do; for a second one they would have to
// go on first, and they may be waiting for their turn.
inline constexpr int kSkippedEarly = 1;

// A consumer warpgroup's own share: its 64 rows see nothing from block `end` on, and see all keys
// of the blocks [whole_begin, whole_end), whose scores need no test.
struct GroupBlocks {
  int end;
  int whole_begin;
  int whole_end;
};

// kBlockM query rows of one head of one sequence. All that depends on the tile alone is worked out
// here once, by a warp that has the time: the loads and products of a tile would wait for it.
struct alignas(16) TileWork {
  int batch;  // -1: there are no more tiles
  int head;
  int first_row;    // in its sequence
  int live_rows;    // rows within the sequence's length; not positive: none
  int stored_rows;  // rows within its room

  // Key blocks that any row may see. Row i sees keys [keys_begin + i, keys_end + i), as far as they
  // are in [0, seqlen_k).
  int block_begin;
  int block_end;
  int keys_begin;
  int keys_end;
  int seqlen_k;

  // Coordinates of the first row in q and out, and of the sequence's first key in k and v.
  int q_row;
  int q_batch;
  int k_row;
  int k_batch;
  int kv_head;

  GroupBlocks groups[3];

  const BlockClasses* classes;  // of the mask, for each key block; nullptr: unknown

  __device__ __forceinline__ bool HasKeys() const { return block_begin < block_end; }
  // Whether any of a consumer warpgroup's rows are within the sequence's length. Nobody looks at
  // the scores of one without.
  __device__ __forceinline__ bool HasRows(int group) const { return live_rows > 64 * group; }
};

// Limits that no row of a tile reaches.
inline constexpr int kNoLimitBegin = -(1 << 30);
inline constexpr int kNoLimitEnd = 1 << 30;

// Works out TileWorks of kBlockM rows and blocks of kBlockN keys.
template <typename Traits>
class TileWorkMaker {
 public:
  __device__ __forceinline__ TileWorkMaker(const KernelArgs& args, int batch, int head, int m_block)
      : p_(args.p),
        classes_(!Traits::kMasks || args.classes.memory == nullptr
                     ? nullptr
                     : args.classes.Row(batch, head, m_block)),
        batch_(batch),
        head_(head),
        first_row_(m_block * Traits::kBlockM) {
    const SequenceBounds s = BoundsOf(p_, batch);
    seqlen_q_ = static_cast<int>(s.seqlen_q);
    seqlen_k_ = static_cast<int>(s.seqlen_k);
  }

  // Run by a whole warp. Four lanes a warpgroup each look at one row: three of them for the
  // warpgroup, the fourth for the first (warpgroup 0) and the last row (warpgroup 1) of the tile.
  // Ranges only move to the right from row to row, so that the first and the last of some rows
  // bound what all of them see.
  __device__ __forceinline__ void Write(TileWork* work) const {
    enum Part { kEnd, kWholeBegin, kWholeEnd, kTile };
    const int lane = threadIdx.x % 32;
    const int group = lane / 4;
    const int part = lane % 4;
    const int last = max(min(seqlen_q_ - first_row_, Traits::kBlockM) - 1, 0);
    const int row = part == kEnd        ? min(64 * group + 63, last)
                    : part == kTile     ? (group == 0 ? 0 : last)
                    : part == kWholeEnd ? 64 * group
                                        : 64 * group + 63;
    const int keys_begin = KeysBegin();
    const int keys_end = KeysEnd();
    const int end = max(min(keys_end + row, seqlen_k_), 0);
    const int begin = min(max(keys_begin + row, 0), end);
    const int tile_begin = __shfl_sync(0xffffffff, begin, kTile);
    const int tile_end = __shfl_sync(0xffffffff, end, 4 + kTile);
    const bool has_keys = first_row_ < seqlen_q_ && tile_begin < tile_end;
    int block_begin = has_keys ? tile_begin / Traits::kBlockN : 0;
    int block_end = has_keys ? RoundUp(tile_end) : 0;
    if constexpr (Traits::kMasks) {
      if (classes_ != nullptr) TrimToMask(&block_begin, &block_end);
    }
    if (group < Traits::kConsumers) {
      GroupBlocks& blocks = work->groups[group];
      // A warpgroup without rows passes over all blocks but one, whose products nobody looks at.
      // Where a mask hides blocks it passes over none: it could not tell how many there are.
      const int seen_end = Traits::kMasks && classes_ != nullptr ? block_end
                           : 64 * group > last                   ? 0
                                               : max(RoundUp(end), block_end - kSkippedEarly);
      if (part == kEnd) blocks.end = max(seen_end, block_begin + 1);
      if (part == kWholeBegin) blocks.whole_begin = RoundUp(begin);
      if (part == kWholeEnd) blocks.whole_end = end / Traits::kBlockN;
    }
    if (lane == 0) {
      work->block_begin = block_begin;
      work->block_end = block_end;
      work->keys_begin = keys_begin;
      work->keys_end = keys_end;
      work->seqlen_k = seqlen_k_;
      if constexpr (Traits::kMasks) work->classes = classes_;
      WritePlaces(work);
    }
  }

 private:
  static __device__ __forceinline__ int RoundUp(int key) {
    return (key + Traits::kBlockN - 1) / Traits::kBlockN;
  }

  // Leaves out blocks at both ends that the mask hides from the whole tile. Both ends 0: all.
  __device__ __forceinline__ void TrimToMask(int* begin, int* end) const {
    const int lane = threadIdx.x % 32;
    int first = *end;
    int last = *begin - 1;
    for (int base = *begin; base < *end; base += 32) {
      const int block = base + lane;
      const unsigned seen =
          __ballot_sync(0xffffffff, block < *end && !classes_[min(block, *end - 1)].empty());
      if (seen == 0) continue;
      first = min(first, base + __ffs(static_cast<int>(seen)) - 1);
      last = base + 31 - __clz(static_cast<int>(seen));
    }
    *begin = first <= last ? first : 0;
    *end = first <= last ? last + 1 : 0;
  }

  // VisibleKeys of the first row before its ends are clamped to the sequence: both move by one key
  // a row from there on.
  __device__ __forceinline__ int KeysBegin() const {
    const int position = seqlen_k_ - seqlen_q_ + first_row_;
    if (p_.window_left < 0) return kNoLimitBegin;
    return max(position - static_cast<int>(min(p_.window_left, kMaxSeqlen)), kNoLimitBegin);
  }
  __device__ __forceinline__ int KeysEnd() const {
    const int position = seqlen_k_ - seqlen_q_ + first_row_;
    if (p_.causal) return position + 1;
    if (p_.window_right < 0) return kNoLimitEnd;
    return min(position + static_cast<int>(min(p_.window_right, kMaxSeqlen)) + 1, kNoLimitEnd);
  }

  __device__ __forceinline__ void WritePlaces(TileWork* work) const {
    const SequenceBounds s = BoundsOf(p_, batch_);
    work->batch = batch_;
    work->head = head_;
    work->first_row = first_row_;
    work->live_rows = seqlen_q_ - first_row_;
    work->stored_rows = static_cast<int>(s.room_q) - first_row_;
    work->q_row = static_cast<int>(s.q_begin) + first_row_;
    work->q_batch = static_cast<int>(s.q_batch);
    work->k_row = static_cast<int>(s.k_begin);
    work->k_batch = static_cast<int>(s.k_batch);
    // KvHeadOf in 32 bits: 64-bit divisions take a hundred instructions each.
    work->kv_head = head_ / (static_cast<int>(p_.num_heads) / static_cast<int>(p_.num_kv_heads));
  }

  const AttentionParams& p_;
  const BlockClasses* const classes_;
  const int batch_;
  const int head_;
  const int first_row_;
  int seqlen_q_;
  int seqlen_k_;
};

}  // namespace attnd::cuda::sm90
