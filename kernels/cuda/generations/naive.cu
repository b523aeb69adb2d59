// The first founding generation: three kernels, with the whole score matrix in device memory
// between them. Its traffic, four times the matrix, is what the later generations save; its matrix
// products are tiled and use the tensor cores, so that the comparison is about the traffic.
#include "kernels/attention_score.h"
#include "kernels/cuda/alignment.h"
#include "kernels/cuda/generations/naive.h"
#include "kernels/cuda/generations/tile_engine.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/online_softmax.h"

namespace attnd::cuda {
namespace {

constexpr int kSoftmaxThreads = 128;
constexpr float kAttends = 1.0f;

// Where scores and then weights lie, as p.probs does; and per row whether it attends to anything.
struct NaiveMemory {
  float* scores;   // [batch_size, num_heads, seqlen_q, seqlen_k]
  float* attends;  // [batch_size, num_heads, seqlen_q]: kAttends or 0
  bool aligned;    // every row of scores starts at a multiple of 16 bytes
};

__host__ __device__ std::int64_t NumRows(const AttentionParams& p) {
  return p.batch_size * p.num_heads * p.seqlen_q;
}

__host__ __device__ std::int64_t NumTiles(std::int64_t size) {
  return (size + kTileSize - 1) / kTileSize;
}

// One 64 x 64 tile of a matrix that every head of every sequence has.
struct TileIndex {
  std::int64_t b;
  std::int64_t head;
  std::int64_t row;     // first of the tile
  std::int64_t column;  // first of the tile

  __device__ TileIndex(const AttentionParams& p, std::int64_t index, std::int64_t rows,
                       std::int64_t columns) {
    column = index % NumTiles(columns) * kTileSize;
    index /= NumTiles(columns);
    row = index % NumTiles(rows) * kTileSize;
    index /= NumTiles(rows);
    head = index % p.num_heads;
    b = index / p.num_heads;
  }
};

template <typename T>
__device__ MatrixView<T> RowsOf(const TensorView& view, std::int64_t offset, std::int64_t rows,
                                bool aligned) {
  return {static_cast<const T*>(view.data) + offset, view.seq_stride, rows, view.dim, aligned};
}

// scores[row][key] = the finished score, -inf where the row may not look and outside the sequence.
template <DataType kDtype>
__global__ void __launch_bounds__(kTileThreads)
    ScoresKernel(const __grid_constant__ AttentionParams p, NaiveMemory memory, bool aligned,
                 std::int64_t first_block) {
  using Engine = TileEngine<kDtype>;
  __shared__ __align__(128) char shared[Engine::kSharedBytes];
  Engine engine(shared);
  const TileIndex tile(p, first_block + blockIdx.x, p.seqlen_q, p.seqlen_k);
  const SequenceBounds s = BoundsOf(p, tile.b);

  typename Engine::Accumulator products;
  Engine::Clear(products);
  if (tile.row < s.seqlen_q && tile.column < s.seqlen_k) {
    const auto q = RowsOf<typename Engine::Storage>(
        p.q, RowOffset(p.q, s.q_batch, s.q_begin, 0, tile.head), s.seqlen_q, aligned);
    const auto k = RowsOf<typename Engine::Storage>(
        p.k, RowOffset(p.k, s.k_batch, s.k_begin, 0, KvHeadOf(p, tile.head)), s.seqlen_k, aligned);
    for (std::int64_t d = 0; d < p.head_dim; d += kTileSize)
      engine.AddProductTransposed(products, q.From(tile.row, d), k.From(tile.column, d));
  }
  engine.ForEach(products, [&](float product, int tile_row, int tile_column) {
    const std::int64_t row = tile.row + tile_row;
    const std::int64_t key = tile.column + tile_column;
    if (row >= p.seqlen_q || key >= p.seqlen_k) return;
    float score = NegativeInfinity();
    if (row < s.seqlen_q && key < s.seqlen_k) {
      const RowScorer scorer = MakeRowScorer(p, s, tile.b, tile.head, row);
      if (key >= scorer.keys.begin && key < scorer.keys.end && scorer.MaySee(key))
        score = scorer.Score(product, key);
    }
    memory.scores[((tile.b * p.num_heads + tile.head) * p.seqlen_q + row) * p.seqlen_k + key] =
        score;
  });
}

// Reduces over the block; every thread gets the result. `scratch` holds one float a warp.
template <typename Combine>
__device__ float BlockReduce(float value, float* scratch, Combine combine) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    value = combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
  __syncthreads();  // the last reduction has been read
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
#pragma unroll
  for (int warp = 1; warp < kSoftmaxThreads / 32; ++warp) value = combine(value, scratch[warp]);
  return value;
}

// One block a row: maximum, sum, then the weights in place of the scores.
__global__ void __launch_bounds__(kSoftmaxThreads)
    SoftmaxKernel(const __grid_constant__ AttentionParams p, NaiveMemory memory,
                  std::int64_t first_block) {
  __shared__ float scratch[kSoftmaxThreads / 32];
  const std::int64_t index = first_block + blockIdx.x;
  float* const scores = memory.scores + index * p.seqlen_k;
  const std::int64_t row = index % p.seqlen_q;
  const std::int64_t head = index / p.seqlen_q % p.num_heads;
  const SequenceBounds s = BoundsOf(p, index / p.seqlen_q / p.num_heads);

  float m = NegativeInfinity();
  for (std::int64_t key = threadIdx.x; key < p.seqlen_k; key += kSoftmaxThreads)
    m = fmaxf(m, scores[key]);
  const float keys_max = BlockReduce(m, scratch, [](float x, float y) { return fmaxf(x, y); });
  const float sink = p.sinks != nullptr && row < s.seqlen_q ? p.sinks[head] : NegativeInfinity();
  m = fmaxf(keys_max, sink);
  const float shift = m == NegativeInfinity() ? 0.0f : m;

  float keys_sum = 0.0f;
  for (std::int64_t key = threadIdx.x; key < p.seqlen_k; key += kSoftmaxThreads)
    keys_sum += expf(scores[key] - shift);
  keys_sum = BlockReduce(keys_sum, scratch, [](float x, float y) { return x + y; });
  SoftmaxState state;
  state.m = m;
  state.l = keys_sum + (sink == NegativeInfinity() ? 0.0f : expf(sink - shift));

  const float inverse = state.InverseSum();
  for (std::int64_t key = threadIdx.x; key < p.seqlen_k; key += kSoftmaxThreads)
    scores[key] = expf(scores[key] - shift) * inverse;
  if (threadIdx.x != 0) return;
  // Not by the sum alone: a sink of infinity leaves keys no weight.
  const bool empty = keys_max == NegativeInfinity() && keys_sum == 0.0f;
  memory.attends[index] = empty ? 0.0f : kAttends;
  if (p.lse != nullptr && row < s.room_q) p.lse[LseOffset(p, s, head, row)] = state.Lse();
}

// out = weights v; 0 for rows that attend to nothing and for padding.
template <DataType kDtype>
__global__ void __launch_bounds__(kTileThreads)
    OutputKernel(const __grid_constant__ AttentionParams p, NaiveMemory memory, bool aligned,
                 std::int64_t first_block) {
  using Engine = TileEngine<kDtype>;
  __shared__ __align__(128) char shared[Engine::kSharedBytes];
  Engine engine(shared);
  const TileIndex tile(p, first_block + blockIdx.x, p.seqlen_q, p.head_dim_v);
  const SequenceBounds s = BoundsOf(p, tile.b);
  if (tile.row >= s.room_q) return;

  typename Engine::Accumulator sums;
  Engine::Clear(sums);
  const std::int64_t first_row = (tile.b * p.num_heads + tile.head) * p.seqlen_q;
  if (tile.row < s.seqlen_q) {
    // Weights are 0 from the sequence's length to the end of the matrix row, so that whole vectors
    // may be read.
    const MatrixView<float> weights = {memory.scores + first_row * p.seqlen_k, p.seqlen_k,
                                       s.seqlen_q, p.seqlen_k, memory.aligned};
    const auto v = RowsOf<typename Engine::Storage>(
        p.v, RowOffset(p.v, s.k_batch, s.k_begin, 0, KvHeadOf(p, tile.head)), s.seqlen_k, aligned);
    for (std::int64_t key = 0; key < s.seqlen_k; key += kTileSize)
      engine.AddProduct(sums, weights.From(tile.row, key), v.From(key, tile.column));
  }
  engine.ForEachOfProduct(sums, [&](float sum, int tile_row, int tile_column) {
    const std::int64_t row = tile.row + tile_row;
    const std::int64_t column = tile.column + tile_column;
    if (row >= s.room_q || column >= p.head_dim_v) return;
    // A selection: 0 * NaN of a value that the row does not see must not reach a row without keys.
    const bool attends = row < s.seqlen_q && memory.attends[first_row + row] != 0.0f;
    StoreFromFloat(p.out.data, p.out.dtype,
                   RowOffset(p.out, s.q_batch, s.q_begin, row, tile.head) + column,
                   attends ? sum : 0.0f);
  });
}

template <DataType kDtype>
cudaError_t Launch(const AttentionParams& p, const NaiveMemory& memory, cudaStream_t stream) {
  const bool aligned = RowsAligned(p.q) && RowsAligned(p.k) && RowsAligned(p.v);
  const std::int64_t row_tiles = p.batch_size * p.num_heads * NumTiles(p.seqlen_q);
  cudaError_t error =
      LaunchInRanges(row_tiles * NumTiles(p.seqlen_k), [&](unsigned blocks, std::int64_t first) {
        ScoresKernel<kDtype><<<blocks, kTileThreads, 0, stream>>>(p, memory, aligned, first);
      });
  if (error != cudaSuccess) return error;
  error = LaunchInRanges(NumRows(p), [&](unsigned blocks, std::int64_t first) {
    SoftmaxKernel<<<blocks, kSoftmaxThreads, 0, stream>>>(p, memory, first);
  });
  if (error != cudaSuccess) return error;
  return LaunchInRanges(
      row_tiles * NumTiles(p.head_dim_v), [&](unsigned blocks, std::int64_t first) {
        OutputKernel<kDtype><<<blocks, kTileThreads, 0, stream>>>(p, memory, aligned, first);
      });
}

// Elements that `attends` takes of the workspace: the scores behind it start at a multiple of 256
// bytes.
std::int64_t AttendsElements(const AttentionParams& p) { return (NumRows(p) + 63) / 64 * 64; }

}  // namespace

std::int64_t NaiveWorkspaceBytes(const AttentionParams& p) {
  const std::int64_t scores = p.probs != nullptr ? 0 : NumRows(p) * p.seqlen_k;
  return (AttendsElements(p) + scores) * static_cast<std::int64_t>(sizeof(float));
}

cudaError_t LaunchNaive(const AttentionParams& p, void* workspace, cudaStream_t stream) {
  NaiveMemory memory;
  memory.attends = static_cast<float*>(workspace);
  memory.scores = p.probs != nullptr ? p.probs : memory.attends + AttendsElements(p);
  memory.aligned = reinterpret_cast<std::uintptr_t>(memory.scores) % 16 == 0 && p.seqlen_k % 4 == 0;
  switch (p.q.dtype) {
    case DataType::kFloat16:
      return Launch<DataType::kFloat16>(p, memory, stream);
    case DataType::kBFloat16:
      return Launch<DataType::kBFloat16>(p, memory, stream);
    default:
      return Launch<DataType::kFloat32>(p, memory, stream);
  }
}

}  // namespace attnd::cuda
