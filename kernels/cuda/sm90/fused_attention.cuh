// The fused attention kernel for Hopper (compute capability 9.0a): FlashAttention-3 (Shah et al.
// 2024) in plain PTX.
//
// Grid: one block for each multiprocessor (in pairs, an even number), each working through tiles of
// kBlockM query rows of one head. Warpgroup 0: warp 0 asks the copy engine for q, k and v
// (Producer), warp 1 chooses tiles (TileScheduler), warp 2 asks for bias and mask (ArrayLoader).
// The other warpgroups are consumers: each owns 64 rows of the tile, multiplies, and keeps scores,
// probabilities and output in registers. Key blocks run from right to left, so that blocks cut by
// the causal edge or by the length come first. Where all rows see all of many keys, neighbouring
// blocks are pairs (Paired).
//
// Shared memory: rings of q, k and v tiles, of TileWorks, and for each consumer of blocks of bias
// and mask; results on their way out, barriers, and the scheduler's own state (tile_traits.h,
// SharedMap). The copy engine writes q, k, v, bias and mask, the scheduler the TileWorks; consumers
// write results, and zeros into v rows past a sequence's length.
//
// Barriers (mbarriers unless said otherwise), one of each a stage, and who arrives:
//   work full       every lane of the scheduler
//   work free       every consumer thread, and the array loader if there is one, once it has read
//                   what it wants
//   work wanted     producer, some blocks before the end of each tile (no stages)
//   q full          producer, 1 + bytes; the TileWork can be read then too
//   q free          every consumer warp, when its last score product of the tile is done
//   k, v full       producer, 1 + bytes; in a pair of blocks half of them come from the other
//   k, v free       one thread of each consumer warpgroup, of both blocks of a pair, when its
//                   product is done
//   array full      array loader, 1 + bytes; one of each warpgroup and slot
//   array free      every warp of the warpgroup, when it has read its rows
//   named 1..3      turn of consumer warpgroup 0..2: itself and the one before it
//   named 4         all consumers, once the zeros past a sequence's length are written
//   named 5..7      a consumer warpgroup's own warps, where it passes over a stage
#pragma once

#include "kernels/cuda/ptx/cluster.cuh"
#include "kernels/cuda/ptx/tma.cuh"
#include "kernels/cuda/ptx/warpgroup.cuh"
#include "kernels/cuda/sm90/consumer.cuh"
#include "kernels/cuda/sm90/kernel_args.h"
#include "kernels/cuda/sm90/producer.cuh"
#include "kernels/cuda/sm90/score_arrays.cuh"
#include "kernels/cuda/sm90/shared_map.cuh"
#include "kernels/cuda/sm90/tile_scheduler.cuh"
#include "kernels/cuda/sm90/tile_traits.h"

namespace attnd::cuda::sm90 {

// All threads of the block, or of its cluster.
template <typename Traits>
__device__ __forceinline__ void AwaitCluster() {
  if constexpr (Traits::kClusterSize == 1) {
    __syncthreads();
  } else {
    ptx::ClusterSync();
  }
}

template <typename Traits>
__global__ void __launch_bounds__(Traits::kThreads, 1)
    FusedAttentionKernel(const __grid_constant__ KernelArgs args) {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  const SharedMap<Traits> shared(shared_memory);
  if (threadIdx.x == 0) {
    ptx::PrefetchTensorMap(&args.q_map);
    ptx::PrefetchTensorMap(&args.k_map);
    ptx::PrefetchTensorMap(&args.v_map);
    if (Traits::kStagedOutput && args.copy_out) ptx::PrefetchTensorMap(&args.out_map);
    if (Traits::kScoreArrays && args.copy_bias) ptx::PrefetchTensorMap(&args.bias_map);
    if (Traits::kScoreArrays && args.copy_mask) ptx::PrefetchTensorMap(&args.mask_map);
    shared.InitBarriers();
  }
  AwaitCluster<Traits>();

  // The same in all lanes, and known to be so to the compiler.
  const int warpgroup = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    ptx::ShrinkRegisters<Traits::kProducerRegisters>();
    if (threadIdx.x == 0) {
      Producer<Traits>(args, shared).Run();
    } else if (threadIdx.x / 32 == 1) {
      TileScheduler<Traits>(args, shared).Run();
    } else if (Traits::kScoreArrays && threadIdx.x == 64) {
      ArrayLoader<Traits>(args, shared).Run();
    }
  } else {
    ptx::GrowRegisters<Traits::kConsumerRegisters>();
    Consumer<Traits>(args, shared, warpgroup - 1).Run();
  }
  // The other block of a pair may still write to this one's shared memory.
  if constexpr (Traits::kClusterSize > 1) AwaitCluster<Traits>();
}

}  // namespace attnd::cuda::sm90
