// Tiled attention on plain multiply-adds: every type, every stride, true float32. It is the fused
// kernel of float32, and the two_pass and online generations of all types.
#pragma once

#include <cstdint>

#include "kernels/attention_score.h"
#include "kernels/cuda/alignment.h"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/simt/tile_attention.h"
#include "kernels/cuda/simt/tile_products.cuh"
#include "kernels/cuda/simt/tile_traits.h"
#include "kernels/cuda/tile_work.cuh"
#include "kernels/online_softmax.h"

namespace attnd::cuda::simt {

// Reductions over the 16 threads that share a row.
__device__ __forceinline__ float RowMax(float value) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2)
    value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

__device__ __forceinline__ float RowSum(float value) {
#pragma unroll
  for (int distance = 8; distance > 0; distance /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

// The finished score of one key, by the rules that all implementations share. A call of its own:
// inlined for every score of a tile it takes the compiler half a minute and the kernel most of its
// registers.
static __device__ __noinline__ float FinishScore(const AttentionParams& p, const TileWork& work,
                                                 std::int64_t row, std::int64_t key,
                                                 float product) {
  const RowScorer scorer = MakeRowScorer(p, work.bounds, work.b, work.head, row);
  return scorer.MaySee(key) ? scorer.Score(product, key) : NegativeInfinity();
}

__device__ __forceinline__ bool HasScoreOptions(const AttentionParams& p) {
  return p.softcap > 0.0f || p.bias.data != nullptr || p.alibi_slopes != nullptr ||
         p.mask.data != nullptr;
}

// Turns one row's products into finished scores, -inf where the row may not look. `key` is the
// first of the thread's keys.
template <int kKeys>
__device__ __forceinline__ void FinishScores(float (&scores)[kKeys], const AttentionParams& p,
                                             const TileWork& work, std::int64_t row,
                                             std::int64_t key) {
  const KeyRange keys =
      row < work.bounds.seqlen_q ? VisibleKeysOf(p, work.bounds, row) : KeyRange{};
  const int begin = static_cast<int>(keys.begin - key);
  const int end = static_cast<int>(keys.end - key);
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    const int offset = kThreadColumns * j;
    if (offset < begin || offset >= end) {
      scores[j] = NegativeInfinity();
    } else if (HasScoreOptions(p)) {
      scores[j] = FinishScore(p, work, row, key + offset, scores[j]);
    } else {
      scores[j] *= p.softmax_scale;
    }
  }
}

// Absorbs one row's scores into its running maximum and this thread's share of the denominator, and
// turns them into weights under the new maximum. Returns the factor for the row's un-normalised
// output.
template <int kKeys>
__device__ __forceinline__ float Absorb(float (&scores)[kKeys], SoftmaxState& state) {
  float m_new = scores[0];
#pragma unroll
  for (int j = 1; j < kKeys; ++j) m_new = fmaxf(m_new, scores[j]);
  m_new = fmaxf(state.m, RowMax(m_new));
  // A row that has seen nothing subtracts 0 instead of -inf: its weights are 0, not NaN.
  const float shift = m_new == NegativeInfinity() ? 0.0f : m_new;
  const float factor = RescaleFactor(state.m, shift);
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    scores[j] = expf(scores[j] - shift);
    sum += scores[j];
  }
  state.l = state.l * factor + sum;
  state.m = m_new;
  return factor;
}

// Turns one row's scores into weights under its final maximum.
template <int kKeys>
__device__ __forceinline__ void Weigh(float (&scores)[kKeys], float m) {
  const float shift = m == NegativeInfinity() ? 0.0f : m;
#pragma unroll
  for (float& score : scores) score = expf(score - shift);
}

// Completes a row's state after the pass that found its maximum and sum: the sum over the threads,
// then the sink. Returns the factor for the row's sum of weights times values; 0 for a row without
// keys. In one pass the weights were taken before the sink could raise the maximum; in the second
// of two passes they know it.
template <int kPasses>
__device__ __forceinline__ float Close(SoftmaxState& state, const AttentionParams& p,
                                       std::int64_t head) {
  state.l = RowSum(state.l);
  const bool empty = state.l == 0.0f;
  const float rescale = p.sinks != nullptr ? state.AddSink(p.sinks[head]) : 1.0f;
  if (empty) return 0.0f;
  return kPasses == 1 ? rescale * state.InverseSum() : state.InverseSum();
}

// Stores factor * sum, or 0 where factor is 0 (a row without keys is 0 even where a hidden,
// non-finite v of its tile made 0 * inf of its sum), and lse.
template <int kColumns>
__device__ __forceinline__ void StoreRow(const float (&sum)[kColumns], float factor, float lse,
                                         const AttentionParams& p, const TileWork& work,
                                         std::int64_t row) {
  const SequenceBounds& s = work.bounds;
  const std::int64_t offset = RowOffset(p.out, s.q_batch, s.q_begin, row, work.head);
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int column = 64 * (c / 4) + 4 * ThreadColumn() + c % 4;
    if (column < p.head_dim_v)
      StoreFromFloat(p.out.data, p.out.dtype, offset + column,
                     factor == 0.0f ? 0.0f : sum[c] * factor);
  }
  if (p.lse != nullptr && ThreadColumn() == 0) p.lse[LseOffset(p, s, work.head, row)] = lse;
}

// One block's tiles in shared memory: q, then k and v in turn, then the weights. All threads load
// all tiles.
template <DataType kDtype, int kHeadDim>
class BlockTiles {
  using T = Tile<kHeadDim>;

 public:
  __device__ __forceinline__ BlockTiles(float* shared, const AttentionParams& p,
                                        const TileWork& work, bool aligned)
      : p_(p),
        work_(work),
        aligned_(aligned),
        queries_(shared),
        keys_(queries_ + T::kQueryElements),
        weights_(keys_ + T::kKeyElements) {}

  __device__ __forceinline__ void LoadQueries() {
    const SequenceBounds& s = work_.bounds;
    Load<T::kBlockM>(queries_, p_.q,
                     RowOffset(p_.q, s.q_batch, s.q_begin, work_.first_row, work_.head),
                     work_.valid_rows);
  }

  // The finished scores of block `block` of keys; `thread_row` is the first of the thread's rows.
  __device__ __forceinline__ void Scores(int block, std::int64_t thread_row,
                                         float (&scores)[T::kRows][T::kKeys]) {
    __syncthreads();  // every thread is done with the last block's k or v
    LoadKeys(p_.k, block);
    __syncthreads();
#pragma unroll
    for (auto& row : scores)
#pragma unroll
      for (float& score : row) score = 0.0f;
    MultiplyTransposed(scores, queries_, T::kStride, keys_, T::kStride,
                       static_cast<int>(p_.head_dim));
#pragma unroll
    for (int i = 0; i < T::kRows; ++i)
      FinishScores(scores[i], p_, work_, thread_row + i,
                   std::int64_t{T::kBlockN} * block + ThreadColumn());
  }

  // out += weights v for block `block` of values.
  __device__ __forceinline__ void AddValues(int block, const float (&weights)[T::kRows][T::kKeys],
                                            float (&out)[T::kRows][kHeadDim / kThreadColumns]) {
#pragma unroll
    for (int i = 0; i < T::kRows; ++i)
#pragma unroll
      for (int j = 0; j < T::kKeys; ++j)
        weights_[(ThreadRow() * T::kRows + i) * T::kWeightStride + ThreadColumn() +
                 kThreadColumns * j] = weights[i][j];
    __syncthreads();  // the weights are there, and every thread is done with k
    LoadKeys(p_.v, block);
    __syncthreads();
    Multiply(out, weights_, T::kWeightStride, keys_, T::kStride, T::kBlockN);
  }

 private:
  template <int kRows>
  __device__ __forceinline__ void Load(float* tile, const TensorView& view, std::int64_t offset,
                                       std::int64_t valid_rows) {
    const auto* const data = static_cast<const typename Element<kDtype>::Storage*>(view.data);
    LoadTile<kDtype, kRows, kHeadDim>(tile, T::kStride, data + offset, view.seq_stride, valid_rows,
                                      view.dim, aligned_);
  }

  __device__ __forceinline__ void LoadKeys(const TensorView& view, int block) {
    const SequenceBounds& s = work_.bounds;
    const std::int64_t key = std::int64_t{T::kBlockN} * block;
    Load<T::kBlockN>(keys_, view, RowOffset(view, s.k_batch, s.k_begin, key, work_.kv_head),
                     s.seqlen_k - key);
  }

  const AttentionParams& p_;
  const TileWork& work_;
  bool aligned_;
  float* queries_;
  float* keys_;
  float* weights_;
};

// One dimension of blocks, each one tile of kBlockM query rows of one sequence and head. Shared
// memory holds the block's tiles and its TileWork.
template <DataType kDtype, int kHeadDim, int kPasses>
__global__ void __launch_bounds__(kThreads)
    TileAttentionKernel(const __grid_constant__ AttentionParams p, bool aligned,
                        std::int64_t first_tile) {
  using T = Tile<kHeadDim>;
  extern __shared__ __align__(128) char shared[];
  static_assert(sizeof(TileWork) <= T::kWorkBytes);
  TileWork& work = *reinterpret_cast<TileWork*>(shared + T::kSharedBytes - T::kWorkBytes);
  if (threadIdx.x == 0) work = MakeTileWork(p, first_tile + blockIdx.x, T::kBlockM, T::kBlockN);
  __syncthreads();
  StorePaddingRows(p, work, T::kBlockM);
  if (work.valid_rows <= 0) return;

  BlockTiles<kDtype, kHeadDim> tiles(reinterpret_cast<float*>(shared), p, work, aligned);
  tiles.LoadQueries();
  const std::int64_t thread_row = work.first_row + ThreadRow() * T::kRows;
  float scores[T::kRows][T::kKeys];
  float out[T::kRows][kHeadDim / kThreadColumns] = {};
  SoftmaxState state[T::kRows];
  float factor[T::kRows];  // for the sums in `out`

#pragma unroll 1
  for (int pass = 0; pass < kPasses; ++pass) {
    const bool last = pass == kPasses - 1;
    for (int block = work.begin_block; block < work.end_block; ++block) {
      tiles.Scores(block, thread_row, scores);
#pragma unroll
      for (int i = 0; i < T::kRows; ++i) {
        if (pass == 0) {
          const float rescale = Absorb(scores[i], state[i]);
          if (!last) continue;
#pragma unroll
          for (float& value : out[i]) value *= rescale;
        } else {
          Weigh(scores[i], state[i].m);
        }
      }
      if (last) tiles.AddValues(block, scores, out);
    }
    if (pass > 0) break;
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) factor[i] = Close<kPasses>(state[i], p, work.head);
  }
#pragma unroll
  for (int i = 0; i < T::kRows; ++i)
    if (thread_row + i < work.bounds.seqlen_q)
      StoreRow(out[i], factor[i], state[i].Lse(), p, work, thread_row + i);
}

template <DataType kDtype, int kHeadDim, int kPasses>
cudaError_t LaunchHeadDim(const AttentionParams& p, cudaStream_t stream) {
  using T = Tile<kHeadDim>;
  const auto kernel = TileAttentionKernel<kDtype, kHeadDim, kPasses>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSharedBytes);
  if (error != cudaSuccess) return error;
  const bool aligned = RowsAligned(p.q) && RowsAligned(p.k) && RowsAligned(p.v);
  const std::int64_t tiles_per_head = (p.seqlen_q + T::kBlockM - 1) / T::kBlockM;
  return LaunchInRanges(p.batch_size * p.num_heads * tiles_per_head,
                        [&](unsigned blocks, std::int64_t first) {
                          kernel<<<blocks, kThreads, T::kSharedBytes, stream>>>(p, aligned, first);
                        });
}

template <DataType kDtype, int kPasses>
cudaError_t LaunchTileAttention(const AttentionParams& p, cudaStream_t stream) {
  const std::int64_t head_dim = p.head_dim > p.head_dim_v ? p.head_dim : p.head_dim_v;
  if (head_dim <= 64) return LaunchHeadDim<kDtype, 64, kPasses>(p, stream);
  if (head_dim <= 128) return LaunchHeadDim<kDtype, 128, kPasses>(p, stream);
  return LaunchHeadDim<kDtype, 256, kPasses>(p, stream);
}

}  // namespace attnd::cuda::simt
