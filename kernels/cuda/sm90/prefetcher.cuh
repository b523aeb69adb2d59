// The prefetcher: brings the beginning of the next tile into the second-level cache while the tile
// at hand is computed. The rings of shared memory reach too little ahead to hide the way to device
// memory where tiles are short.
#pragma once

#include "kernels/cuda/ptx/tma.cuh"
#include "kernels/cuda/sm90/kernel_args.h"
#include "kernels/cuda/sm90/shared_map.cuh"

namespace attnd::cuda::sm90 {

template <typename Traits>
class Prefetcher {
 public:
  __device__ __forceinline__ Prefetcher(const KernelArgs& args, const SharedMap<Traits>& shared)
      : args_(args), shared_(shared) {}

  // Run by one thread.
  __device__ __forceinline__ void Run() {
    for (RingPosition<Traits::kWorkSlots> slot;; slot.Advance()) {
      ptx::MbarrierWait(shared_.WorkFull(slot.stage()), slot.parity());
      const TileWork& work = shared_.Work(slot.stage());
      if (work.batch < 0) return;
      Prefetch(work);
      ptx::MbarrierArrive(shared_.WorkFree(slot.stage()));
    }
  }

 private:
  // q, and as many of the first blocks of k and v as shared memory holds.
  __device__ __forceinline__ void Prefetch(const TileWork& work) {
    PrefetchChunks<Traits::kHeadDim, Traits::kQkSwizzleBytes>(
        &args_.q_map, ptx::CachePolicy::kEvictFirst, work.q_row, work.head, work.q_batch);
    const int begin = max(work.block_begin, work.block_end - Traits::kStages);
    for (int block = work.block_end - 1; block >= begin; --block) {
      const int row = work.k_row + block * Traits::kBlockN;
      PrefetchChunks<Traits::kHeadDim, Traits::kQkSwizzleBytes>(
          &args_.k_map, ptx::CachePolicy::kEvictLast, row, work.kv_head, work.k_batch);
      PrefetchChunks<Traits::kHeadDimV, Traits::kVSwizzleBytes>(
          &args_.v_map, ptx::CachePolicy::kEvictLast, row, work.kv_head, work.k_batch);
    }
  }

  template <int kDim, int kSwizzleBytes>
  __device__ __forceinline__ void PrefetchChunks(const CUtensorMap* map, ptx::CachePolicy policy,
                                                 int row, int head, int batch) {
    constexpr int kColumns = kSwizzleBytes / 2;
#pragma unroll
    for (int chunk = 0; chunk < kDim / kColumns; ++chunk)
      ptx::TmaPrefetch4d(map, policy, chunk * kColumns, row, head, batch);
  }

  const KernelArgs& args_;
  const SharedMap<Traits>& shared_;
};

}  // namespace attnd::cuda::sm90
