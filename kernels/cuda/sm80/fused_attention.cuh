// The fused online-softmax kernel for 16-bit inputs (FlashAttention-2, Dao 2023, algorithm 1):
// scores and weights never leave the registers, q, k and v are read once a tile.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/shared_address.cuh"
#include "kernels/cuda/sm80/fused_attention.h"
#include "kernels/cuda/sm80/score_unit.cuh"
#include "kernels/cuda/sm80/tile_epilogue.cuh"
#include "kernels/cuda/sm80/tile_products.cuh"
#include "kernels/cuda/sm80/tile_scores.cuh"
#include "kernels/cuda/sm80/tile_softmax.cuh"
#include "kernels/cuda/sm80/tile_traits.h"
#include "kernels/cuda/tile_work.cuh"

namespace attnd::cuda::sm80 {

// One dimension of blocks, each one tile of kBlockM query rows of one sequence and head. Each warp
// owns 16 kFragmentsM of the rows. All threads load the tiles of q, k and v, in this order in
// shared memory, followed by the block's TileWork; a warp reads only its own rows of q, and all of
// k and v. k of the next step is under way during softmax and p v, v during q k^T.
template <DataType kDtype, int kHeadDim, bool kGeneral>
__global__ void __launch_bounds__(FusedTile<kHeadDim, kGeneral>::kThreads)
    FusedAttentionKernel(const __grid_constant__ AttentionParams p, std::int64_t first_tile) {
  using Tile = FusedTile<kHeadDim, kGeneral>;
  extern __shared__ __align__(128) char shared[];
  const std::uint32_t query_tile = ptx::SharedAddress(shared);
  const std::uint32_t key_tile = query_tile + Tile::kQueryBytes;
  const std::uint32_t value_tile = key_tile + Tile::kKeyBytes;
  static_assert(sizeof(TileWork) <= Tile::kWorkBytes);
  TileWork& work = *reinterpret_cast<TileWork*>(shared + Tile::kTileBytes);
  if (threadIdx.x == 0)
    work = MakeTileWork(p, first_tile + blockIdx.x, Tile::kBlockM, Tile::kBlockN);
  __syncthreads();
  StorePaddingRows(p, work, Tile::kBlockM);
  if (work.valid_rows <= 0) return;

  const auto load_rows = [&]<int kRows>(std::integral_constant<int, kRows>, std::uint32_t tile,
                                        const TensorView& view, std::int64_t offset,
                                        std::int64_t valid_rows) {
    LoadTileAsync<kRows, kHeadDim, Tile::kThreads>(
        tile, static_cast<const std::uint16_t*>(view.data) + offset, view.seq_stride,
        static_cast<int>(valid_rows), static_cast<int>(view.dim));
    ptx::CpAsyncCommit();
  };
  const auto load_keys = [&](const TensorView& view, std::uint32_t tile, int block) {
    const SequenceBounds& s = work.bounds;
    const std::int64_t key = std::int64_t{Tile::kBlockN} * block;
    load_rows(std::integral_constant<int, Tile::kBlockN>(), tile, view,
              RowOffset(view, s.k_batch, s.k_begin, key, work.kv_head), s.seqlen_k - key);
  };

  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  const int warp_row = 16 * Tile::kFragmentsM * warp;
  const auto query_fragments = QueryFragments<kHeadDim>(query_tile, warp_row, lane);
  const auto key_fragments = KeyFragments<kHeadDim>(key_tile, lane);
  const auto value_fragments = ValueFragments<kHeadDim>(value_tile, lane);
  const ScoreUnit<kGeneral> unit(p);

  Accumulators<Tile::kFragmentsM, kHeadDim / 8> out;
  TileSoftmax<Tile::kFragmentsM> softmax;
  out.Clear();
  softmax.Clear();

  if (work.begin_block < work.end_block) {
    load_rows(std::integral_constant<int, Tile::kBlockM>(), query_tile, p.q,
              RowOffset(p.q, work.bounds.q_batch, work.bounds.q_begin, work.first_row, work.head),
              work.valid_rows);
    load_keys(p.k, key_tile, work.begin_block);
  }
  for (int block = work.begin_block; block < work.end_block; ++block) {
    ptx::CpAsyncWait<0>();
    __syncthreads();  // k has landed, and every warp is done with the last block's v
    load_keys(p.v, value_tile, block);

    Accumulators<Tile::kFragmentsM, Tile::kBlockN / 8> scores;
    scores.Clear();
    MultiplyQueriesKeys<kDtype>(scores, query_fragments, key_fragments);
    const int key = block * Tile::kBlockN;
    const TilePosition position{static_cast<int>(work.first_row) + warp_row + lane / 4,
                                key + 2 * (lane % 4)};
    if constexpr (kGeneral) {
      if (unit.finished) FinishScores(scores, p, work, position);
      if (p.mask.data != nullptr) ApplyMask(scores, p, work, position);
    }
    if (key < work.free_begin || key + Tile::kBlockN > work.free_end)
      HideInvisible(scores, p, work, position);

    ptx::CpAsyncWait<0>();
    __syncthreads();  // v has landed, and every warp is done with k
    if (block + 1 < work.end_block) load_keys(p.k, key_tile, block + 1);
    softmax.Absorb(scores, out, unit);
    MultiplyWeightsValues<kDtype>(out, scores, value_fragments);
  }

  const int first_row = static_cast<int>(work.first_row) + warp_row + lane / 4;
  FinishRows(out, softmax, p, work, unit.natural_factor, first_row, lane);
  if (p.out.dtype == DataType::kFloat32) {
    StoreFloat32(out, p, work, first_row, lane);
  } else {
    StoreThroughShared<kDtype, kHeadDim>(out, shared, warp_row, p, work, lane);
  }
}

template <DataType kDtype, int kHeadDim, bool kGeneral>
cudaError_t LaunchFusedAttention(const AttentionParams& p, cudaStream_t stream) {
  using Tile = FusedTile<kHeadDim, kGeneral>;
  const auto kernel = FusedAttentionKernel<kDtype, kHeadDim, kGeneral>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tile::kSharedBytes);
  if (error != cudaSuccess) return error;
  const std::int64_t tiles_per_head = (p.seqlen_q + Tile::kBlockM - 1) / Tile::kBlockM;
  return LaunchInRanges(p.batch_size * p.num_heads * tiles_per_head,
                        [&](unsigned blocks, std::int64_t first) {
                          kernel<<<blocks, Tile::kThreads, Tile::kSharedBytes, stream>>>(p, first);
                        });
}

}  // namespace attnd::cuda::sm80
