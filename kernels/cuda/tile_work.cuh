// What one block of a fused kernel has to do: its rows, and the blocks of keys that they see.
#pragma once

#include <cstdint>

#include "kernels/attention_mask.h"
#include "kernels/cuda/element.cuh"
#include "kernels/online_softmax.h"
#include "kernels/sequence_bounds.h"

namespace attnd::cuda {

__device__ __forceinline__ KeyRange VisibleKeysOf(const AttentionParams& p, const SequenceBounds& s,
                                                  std::int64_t row) {
  return VisibleKeys(row, s.seqlen_q, s.seqlen_k, p.causal, p.window_left, p.window_right);
}

// Lives in shared memory: in registers it would cost every thread some twenty of them from the
// first block of keys to the last, and the kernel has none to spare.
struct TileWork {
  SequenceBounds bounds;
  std::int64_t b;
  std::int64_t head;
  std::int64_t kv_head;
  std::int64_t first_row;  // of the sequence's own rows
  int valid_rows;          // rows of the tile within the sequence's length; not positive: none
  // Blocks of keys that some row of the tile sees, and the keys that all of them see: ranges only
  // move to the right from row to row.
  int begin_block;
  int end_block;
  int free_begin;
  int free_end;
};

// The work of tile `tile` of the problem. Tiles are numbered head by head, the last query rows
// first: blocks that share keys run together and find them in the L2 cache, and under a causal mask
// the long tiles start before the short ones.
__device__ __forceinline__ TileWork MakeTileWork(const AttentionParams& p, std::int64_t tile,
                                                 int block_m, int block_n) {
  TileWork work;
  const std::int64_t tiles_per_head = (p.seqlen_q + block_m - 1) / block_m;
  const std::int64_t sequence_head = tile / tiles_per_head;
  work.first_row = (tiles_per_head - 1 - tile % tiles_per_head) * block_m;
  work.head = sequence_head % p.num_heads;
  work.b = sequence_head / p.num_heads;
  work.kv_head = KvHeadOf(p, work.head);
  const SequenceBounds s = BoundsOf(p, work.b);
  work.bounds = s;
  work.valid_rows =
      static_cast<int>(min(s.seqlen_q - work.first_row, static_cast<std::int64_t>(block_m)));
  const KeyRange first = VisibleKeysOf(p, s, work.first_row);
  const KeyRange last = VisibleKeysOf(p, s, work.first_row + max(work.valid_rows, 1) - 1);
  work.begin_block = static_cast<int>(first.begin) / block_n;
  work.end_block = (static_cast<int>(last.end) + block_n - 1) / block_n;
  work.free_begin = static_cast<int>(last.begin);
  work.free_end = static_cast<int>(first.end);
  return work;
}

// Writes zeros to the rows of `work` that lie past the sequence's length but inside its room, and
// -inf to their lse. Called by all threads of the block.
__device__ __forceinline__ void StorePaddingRows(const AttentionParams& p, const TileWork& work,
                                                 int block_m) {
  const SequenceBounds& s = work.bounds;
  const std::int64_t end = min(work.first_row + block_m, s.room_q);
  for (std::int64_t row = max(work.first_row, s.seqlen_q); row < end; ++row) {
    const std::int64_t offset = RowOffset(p.out, s.q_batch, s.q_begin, row, work.head);
    for (std::int64_t d = threadIdx.x; d < p.head_dim_v; d += blockDim.x)
      StoreFromFloat(p.out.data, p.out.dtype, offset + d, 0.0f);
    if (p.lse != nullptr && threadIdx.x == 0)
      p.lse[LseOffset(p, s, work.head, row)] = NegativeInfinity();
  }
}

}  // namespace attnd::cuda
