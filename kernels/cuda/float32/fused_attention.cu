#include "kernels/attention_score.h"
#include "kernels/cuda/float32/fused_attention.h"
#include "kernels/cuda/float32/tile_products.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/tile_work.cuh"
#include "kernels/online_softmax.h"

namespace attnd::cuda::float32 {
namespace {

// Tile sizes: a thread owns kRows rows and kKeys keys of a score tile. Wide heads take smaller
// tiles, which keeps shared memory under the 99 KiB that every device from compute capability 8.0
// on has.
template <int kHeadDim>
struct Tile {
  static constexpr int kRows = kHeadDim <= 128 ? 8 : 4;
  static constexpr int kKeys = kHeadDim <= 128 ? 4 : 2;
  static constexpr int kBlockM = kThreads / kThreadColumns * kRows;
  static constexpr int kBlockN = kThreadColumns * kKeys;
  static constexpr int kStride = kHeadDim + kPadding;  // of the tiles of q, k and v
  static constexpr int kWeightStride = kBlockN + kPadding;
  static constexpr int kQueryElements = kBlockM * kStride;
  static constexpr int kKeyElements = kBlockN * kStride;  // k and v take turns
  static constexpr int kWeightElements = kBlockM * kWeightStride;
  static constexpr int kWorkBytes = 128;
  static constexpr int kSharedBytes =
      4 * (kQueryElements + kKeyElements + kWeightElements) + kWorkBytes;
};

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

// Turns one row's products into finished scores, -inf where the row may not look. `key` is the
// first of the thread's keys.
template <int kKeys>
__device__ __forceinline__ void FinishScores(float (&scores)[kKeys], const AttentionParams& p,
                                             const TileWork& work, std::int64_t row,
                                             std::int64_t key) {
  const RowScorer scorer = MakeRowScorer(p, work.bounds, work.b, work.head, row);
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    const std::int64_t this_key = key + kThreadColumns * j;
    const bool visible =
        row < work.bounds.seqlen_q && this_key >= scorer.keys.begin && this_key < scorer.keys.end && scorer.MaySee(this_key);
    scores[j] = visible ? scorer.Score(scores[j], this_key) : NegativeInfinity();
  }
}

// Absorbs one row's scores into its running maximum and this thread's share of the denominator, and
// turns them into weights. Returns the factor for the row's un-normalised output.
template <int kKeys>
__device__ __forceinline__ float Absorb(float (&scores)[kKeys], float& m, float& l) {
  float m_new = scores[0];
#pragma unroll
  for (int j = 1; j < kKeys; ++j) m_new = fmaxf(m_new, scores[j]);
  m_new = fmaxf(m, RowMax(m_new));
  const float shift = m_new == NegativeInfinity() ? 0.0f : m_new;
  const float factor = RescaleFactor(m, shift);
  float sum = 0.0f;
#pragma unroll
  for (int j = 0; j < kKeys; ++j) {
    scores[j] = expf(scores[j] - shift);
    sum += scores[j];
  }
  l = l * factor + sum;
  m = m_new;
  return factor;
}

// Divides a row by its denominator and stores it with its lse.
template <int kColumns>
__device__ __forceinline__ void StoreRow(const float (&sum)[kColumns], SoftmaxState state,
                                         const AttentionParams& p, const TileWork& work,
                                         std::int64_t row) {
  const bool empty = state.l == 0.0f;
  float factor = 1.0f;
  if (p.sinks != nullptr) factor = state.AddSink(p.sinks[work.head]);
  factor *= state.InverseSum();
  const SequenceBounds& s = work.bounds;
  float* const out =
      static_cast<float*>(p.out.data) + RowOffset(p.out, s.q_batch, s.q_begin, row, work.head);
#pragma unroll
  for (int c = 0; c < kColumns; ++c) {
    const int column = 64 * (c / 4) + 4 * ThreadColumn() + c % 4;
    // A selection: a row without keys is 0 even where a hidden, non-finite v of its tile made 0 *
    // inf of it.
    if (column < p.head_dim_v) out[column] = empty ? 0.0f : sum[c] * factor;
  }
  if (p.lse != nullptr && ThreadColumn() == 0) p.lse[LseOffset(p, s, work.head, row)] = state.Lse();
}

// One dimension of blocks, each one tile of kBlockM query rows of one sequence and head. Shared
// memory holds q, then k and v in turn, then the weights, then the block's TileWork; all threads
// load all tiles.
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads)
    FusedKernel(const __grid_constant__ AttentionParams p, std::int64_t first_tile) {
  using T = Tile<kHeadDim>;
  extern __shared__ __align__(128) char shared[];
  float* const queries = reinterpret_cast<float*>(shared);
  float* const keys = queries + T::kQueryElements;
  float* const weights = keys + T::kKeyElements;
  static_assert(sizeof(TileWork) <= T::kWorkBytes);
  TileWork& work = *reinterpret_cast<TileWork*>(weights + T::kWeightElements);
  if (threadIdx.x == 0) work = MakeTileWork(p, first_tile + blockIdx.x, T::kBlockM, T::kBlockN);
  __syncthreads();
  StorePaddingRows(p, work, T::kBlockM);
  if (work.valid_rows <= 0) return;

  const SequenceBounds& s = work.bounds;
  const auto load = [&](float* tile, int rows, const TensorView& view, std::int64_t offset,
                        std::int64_t valid_rows) {
    LoadTile(tile, rows, kHeadDim, T::kStride, static_cast<const float*>(view.data) + offset,
             view.seq_stride, valid_rows, view.dim);
  };
  load(queries, T::kBlockM, p.q, RowOffset(p.q, s.q_batch, s.q_begin, work.first_row, work.head),
       work.valid_rows);

  const std::int64_t thread_row = work.first_row + ThreadRow() * T::kRows;
  float out[T::kRows][kHeadDim / kThreadColumns] = {};
  SoftmaxState state[T::kRows];
  for (int block = work.begin_block; block < work.end_block; ++block) {
    const std::int64_t key = std::int64_t{T::kBlockN} * block;
    __syncthreads();  // every thread is done with the last block's v
    load(keys, T::kBlockN, p.k, RowOffset(p.k, s.k_batch, s.k_begin, key, work.kv_head),
         s.seqlen_k - key);
    __syncthreads();
    float scores[T::kRows][T::kKeys] = {};
    MultiplyTransposed(scores, queries, T::kStride, keys, T::kStride, static_cast<int>(p.head_dim));
#pragma unroll
    for (int i = 0; i < T::kRows; ++i) {
      FinishScores(scores[i], p, work, thread_row + i, key + ThreadColumn());
      const float factor = Absorb(scores[i], state[i].m, state[i].l);
#pragma unroll
      for (float& value : out[i]) value *= factor;
#pragma unroll
      for (int j = 0; j < T::kKeys; ++j)
        weights[(ThreadRow() * T::kRows + i) * T::kWeightStride + ThreadColumn() +
                kThreadColumns * j] = scores[i][j];
    }
    __syncthreads();  // the weights are there, and every thread is done with k
    load(keys, T::kBlockN, p.v, RowOffset(p.v, s.k_batch, s.k_begin, key, work.kv_head),
         s.seqlen_k - key);
    __syncthreads();
    Multiply(out, weights, T::kWeightStride, keys, T::kStride, T::kBlockN);
  }

#pragma unroll
  for (int i = 0; i < T::kRows; ++i) {
    state[i].l = RowSum(state[i].l);
    if (thread_row + i < s.seqlen_q) StoreRow(out[i], state[i], p, work, thread_row + i);
  }
}

template <int kHeadDim>
cudaError_t Launch(const AttentionParams& p, cudaStream_t stream) {
  using T = Tile<kHeadDim>;
  const auto kernel = FusedKernel<kHeadDim>;
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, T::kSharedBytes);
  if (error != cudaSuccess) return error;
  const std::int64_t tiles_per_head = (p.seqlen_q + T::kBlockM - 1) / T::kBlockM;
  return LaunchInRanges(p.batch_size * p.num_heads * tiles_per_head,
                        [&](unsigned blocks, std::int64_t first) {
                          kernel<<<blocks, kThreads, T::kSharedBytes, stream>>>(p, first);
                        });
}

}  // namespace

cudaError_t LaunchFusedAttention(const AttentionParams& p, cudaStream_t stream) {
  const std::int64_t head_dim = p.head_dim > p.head_dim_v ? p.head_dim : p.head_dim_v;
  if (head_dim <= 64) return Launch<64>(p, stream);
  if (head_dim <= 128) return Launch<128>(p, stream);
  return Launch<256>(p, stream);
}

}  // namespace attnd::cuda::float32
