// Which tile of the problem a block works on next.
#pragma once

#include "kernels/cuda/ptx/special_registers.cuh"
#include "kernels/cuda/sm90/epilogue.cuh"
#include "kernels/cuda/sm90/kernel_args.h"
#include "kernels/cuda/sm90/shared_map.cuh"
#include "kernels/cuda/sm90/tile_work.cuh"

namespace attnd::cuda::sm90 {

// The scheduler warp: writes the next TileWork when the producer asks for it. It stores the
// results of tiles without keys itself and hands on the others only: a consumer looks for its next
// tile while it has the turn at the tensor cores, and could not pass over tiles that the consumers
// waiting for the turn have to give back too.
//
// Tiles of equal cost are dealt to the blocks in turn. Where they differ they are handed out by a
// ticket, and under a causal mask the later rows, which see more keys, go first, so that no block
// starts a long tile last.
//
// Order of tiles: sections of heads whose keys and values fit the second-level cache together; in a
// section all heads of one row block, then of the next. Packed sequences come one after the other,
// the heads of a sequence as one section.
template <typename Traits>
class TileScheduler {
 public:
  __device__ __forceinline__ TileScheduler(const KernelArgs& args, const SharedMap<Traits>& shared)
      : args_(args), shared_(shared) {}

  // Run by one whole warp. The last TileWork is the one that says there are no more.
  __device__ __forceinline__ void Run() {
    RingPosition<Traits::kWorkSlots> slot;
    RingPosition<1> wanted;
    if (threadIdx.x % 32 == 0) shared_.Scheduler() = {static_cast<int>(blockIdx.x), 0, 0};
    __syncwarp();
    for (;; TakeTile()) {
      ptx::MbarrierWait(shared_.WorkFree(slot.stage()), slot.parity() ^ 1);
      TileWork& work = shared_.Work(slot.stage());
      const bool more =
          args_.p.cu_seqlens_q == nullptr ? WriteFixedLengthTile(&work) : WritePackedTile(&work);
      if (!more && threadIdx.x % 32 == 0) work.batch = -1;
      __syncwarp();
      if (more && !work.HasKeys()) {
        StoreEmptyTile<Traits::kBlockM, Traits::kHeadDimV>(args_.p, work);
        continue;
      }
      // All lanes, for several wrote to it.
      ptx::MbarrierArrive(shared_.WorkFull(slot.stage()));
      if (!more) return;
      ptx::MbarrierWait(shared_.WorkWanted(), wanted.parity());
      slot.Advance();
      wanted.Advance();
    }
  }

 private:
  // The block's next tile: by ticket, or the one that is dealt to it.
  __device__ __forceinline__ void TakeTile() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) {
      int& tile = shared_.Scheduler().tile;
      tile = args_.ticket == nullptr ? tile : atomicAdd(args_.ticket, 1);
      tile += ptx::NumBlocks();
    }
    __syncwarp();
  }

  __device__ __forceinline__ void Write(int batch, int head, int m_rank, int m_blocks,
                                        TileWork* work) const {
    const int m_block = args_.p.causal ? m_blocks - 1 - m_rank : m_rank;
    TileWorkMaker<Traits>(args_, batch, head, m_block).Write(work);
  }

  __device__ __forceinline__ bool WriteFixedLengthTile(TileWork* work) const {
    const int index = shared_.Scheduler().tile;
    if (index >= args_.num_tiles) return false;
    const int num_heads = static_cast<int>(args_.p.num_heads);
    const int all_heads = num_heads * static_cast<int>(args_.p.batch_size);
    const int section_tiles = args_.heads_per_section * args_.m_blocks;
    const int section = index / section_tiles;
    const int rank = index - section * section_tiles;
    const int first_head = section * args_.heads_per_section;
    const int heads = min(args_.heads_per_section, all_heads - first_head);
    const int m_rank = rank / heads;
    const int head = first_head + rank - m_rank * heads;
    const int batch = head / num_heads;
    Write(batch, head - batch * num_heads, m_rank, args_.m_blocks, work);
    return true;
  }

  // Walks the sequences 32 at a time, one a lane, until their running tile count passes the
  // tile's index, which never falls: the walk goes on where it ended last.
  __device__ __forceinline__ bool WritePackedTile(TileWork* work) const {
    const int num_heads = static_cast<int>(args_.p.num_heads);
    const int lane = threadIdx.x % 32;
    SchedulerState walk = shared_.Scheduler();
    for (; walk.group < args_.p.batch_size; walk.group += 32) {
      const int batch = walk.group + lane;
      int m_blocks = 0;
      if (batch < args_.p.batch_size) {
        m_blocks =
            (args_.p.cu_seqlens_q[batch + 1] - args_.p.cu_seqlens_q[batch] + Traits::kBlockM - 1) /
            Traits::kBlockM;
      }
      int tiles_through = m_blocks * num_heads;
      for (int step = 1; step < 32; step *= 2) {
        const int below = __shfl_up_sync(0xffffffff, tiles_through, step);
        if (lane >= step) tiles_through += below;
      }
      const unsigned reached =
          __ballot_sync(0xffffffff, walk.first_tile + tiles_through > walk.tile);
      if (reached != 0) {
        const int source = __ffs(static_cast<int>(reached)) - 1;
        const int blocks = __shfl_sync(0xffffffff, m_blocks, source);
        const int through = __shfl_sync(0xffffffff, tiles_through, source);
        const int rank = walk.tile - (walk.first_tile + through - blocks * num_heads);
        if (lane == 0) shared_.Scheduler() = walk;
        const int m_rank = rank / num_heads;
        Write(walk.group + source, rank - m_rank * num_heads, m_rank, blocks, work);
        return true;
      }
      walk.first_tile += __shfl_sync(0xffffffff, tiles_through, 31);
    }
    return false;
  }

  const KernelArgs& args_;
  const SharedMap<Traits>& shared_;
};

}  // namespace attnd::cuda::sm90
