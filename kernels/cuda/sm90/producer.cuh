// The producer: feeds the rings of q, k and v through the copy engine.
#pragma once

#include "kernels/cuda/ptx/cluster.cuh"
#include "kernels/cuda/ptx/tma.cuh"
#include "kernels/cuda/sm90/block_walk.cuh"
#include "kernels/cuda/sm90/kernel_args.h"
#include "kernels/cuda/sm90/shared_map.cuh"

namespace attnd::cuda::sm90 {

// The producer asks the scheduler for the next tile when it has loaded all key blocks but the last
// kBlocksAhead + 1. A tile that is chosen early cannot go to a block that becomes free sooner; one
// that is chosen late is waited for.
inline constexpr int kBlocksAhead = 4;

template <typename Traits>
class Producer {
 public:
  __device__ __forceinline__ Producer(const KernelArgs& args, const SharedMap<Traits>& shared)
      : args_(args), shared_(shared) {}

  // Run by one thread.
  __device__ __forceinline__ void Run() {
    RingPosition<Traits::kWorkSlots> slot;
    for (bool more = true; more; slot.Advance()) {
      ptx::MbarrierWait(shared_.WorkFull(slot.stage()), slot.parity());
      const TileWork& work = shared_.Work(slot.stage());
      more = work.batch >= 0;
      if (more) {
        LoadTile(work);
      } else {
        AwaitFreeQ();
        ptx::MbarrierArrive(shared_.QFull(q_.stage()));
        q_.Advance();
      }
    }
  }

 private:
  // Loads the tile's q and its key blocks from right to left, in the order in which the consumers
  // need them: the scores of a block come before the output of the block to its right.
  __device__ __forceinline__ void LoadTile(const TileWork& work) {
    k_row_ = work.k_row;
    k_batch_ = work.k_batch;
    kv_head_ = work.kv_head;
    const int asking_block = min(work.block_end - 1, work.block_begin + kBlocksAhead);
    bool asked = false;
    int before = -1;  // the block before the one at hand; -1: none
    BlockWalk<Traits> walk(args_, work, work.block_end);
    for (;; walk.Step()) {
      const int block = walk.block();
      if (!asked && block <= asking_block) {
        ptx::MbarrierArrive(shared_.WorkWanted());
        asked = true;
      }
      LoadK(block);
      // The first k comes before q, which may have to wait for the tile before this one.
      if (before < 0) {
        LoadQ(work);
      } else {
        LoadV(before);
      }
      before = block;
      if (walk.AtLast()) break;
    }
    LoadV(before);
  }

  __device__ __forceinline__ void AwaitFreeQ() {
    ptx::MbarrierWait(shared_.QFree(q_.stage()), q_.parity() ^ 1);
  }

  __device__ __forceinline__ void LoadQ(const TileWork& work) {
    const std::uint32_t full = shared_.QFull(q_.stage());
    AwaitFreeQ();
    ptx::MbarrierArriveExpectBytes(full, Traits::kQBytes);
    const std::uint32_t q = shared_.Q(q_.stage());
    ForEachChunk<Traits::kHeadDim, Traits::kQkSwizzleBytes, Traits::kBlockM>(
        [&](int offset, int column) {
          ptx::TmaLoad4d(q + offset, &args_.q_map, full, ptx::CachePolicy::kEvictFirst, column,
                         work.q_row, work.head, work.q_batch);
        });
    q_.Advance();
  }

  __device__ __forceinline__ void LoadK(int block) {
    const std::uint32_t full = shared_.KFull(k_.stage());
    ptx::MbarrierWait(shared_.KFree(k_.stage()), k_.parity() ^ 1);
    ptx::MbarrierArriveExpectBytes(full, Traits::kKBytes);
    LoadKeys<Traits::kHeadDim, Traits::kQkSwizzleBytes>(&args_.k_map, shared_.K(k_.stage()), full,
                                                        block);
    k_.Advance();
  }

  __device__ __forceinline__ void LoadV(int block) {
    const std::uint32_t full = shared_.VFull(v_.stage());
    ptx::MbarrierWait(shared_.VFree(v_.stage()), v_.parity() ^ 1);
    ptx::MbarrierArriveExpectBytes(full, Traits::kVBytes);
    LoadKeys<Traits::kHeadDimV, Traits::kVSwizzleBytes>(&args_.v_map, shared_.V(v_.stage()), full,
                                                        block);
    v_.Advance();
  }

  // A block of k or v, or this block's share of it for the whole cluster.
  template <int kDim, int kSwizzleBytes>
  __device__ __forceinline__ void LoadKeys(const CUtensorMap* map, std::uint32_t destination,
                                           std::uint32_t full, int block) const {
    constexpr auto kPolicy = ptx::CachePolicy::kEvictLast;
    const int row = k_row_ + block * Traits::kBlockN;
    ForEachChunk<kDim, kSwizzleBytes, Traits::kBlockN>([&](int offset, int column) {
      if constexpr (Traits::kClusterSize == 1) {
        ptx::TmaLoad4d(destination + offset, map, full, kPolicy, column, row, kv_head_, k_batch_);
      } else {
        constexpr std::uint16_t kAll = (1 << Traits::kClusterSize) - 1;
        const int first =
            static_cast<int>(ptx::ClusterRank()) * (Traits::kBlockN / Traits::kClusterSize);
        ptx::TmaLoad4dMulticast(destination + offset + first * kSwizzleBytes, map, full, kPolicy,
                                kAll, column, row + first, kv_head_, k_batch_);
      }
    });
  }

  // Calls copy(bytes from the tile's begin, first column) for every column chunk of a tile of kRows
  // rows and kDim columns.
  template <int kDim, int kSwizzleBytes, int kRows, typename Copy>
  static __device__ __forceinline__ void ForEachChunk(Copy copy) {
    constexpr int kColumns = kSwizzleBytes / 2;
#pragma unroll
    for (int chunk = 0; chunk < kDim / kColumns; ++chunk)
      copy(chunk * kRows * kSwizzleBytes, chunk * kColumns);
  }

  const KernelArgs& args_;
  const SharedMap<Traits>& shared_;
  int k_row_ = 0;  // of the tile at hand
  int k_batch_ = 0;
  int kv_head_ = 0;
  RingPosition<Traits::kQStages> q_;
  RingPosition<Traits::kStages> k_;
  RingPosition<Traits::kStages> v_;
};

}  // namespace attnd::cuda::sm90
