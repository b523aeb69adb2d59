// 64 x 64 tiles of matrix products for the naive generation: on the tensor cores for 16-bit types,
// in true float32 else. The two engines have the same members; 128 threads share a tile.
#pragma once

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/ptx/cp_async.cuh"
#include "kernels/cuda/ptx/shared_address.cuh"
#include "kernels/cuda/simt/tile_products.cuh"
#include "kernels/cuda/sm80/shared_tile.cuh"
#include "kernels/cuda/sm80/tile_products.cuh"

namespace attnd::cuda {

inline constexpr int kTileSize = 64;
inline constexpr int kTileThreads = 128;

// A matrix in global memory, of which `rows` x `columns` may be read.
template <typename T>
struct MatrixView {
  const T* data;
  std::int64_t row_stride;
  std::int64_t rows;
  std::int64_t columns;
  bool aligned;  // every row starts at a multiple of 16 bytes

  // The part that begins at (row, column).
  __device__ __forceinline__ MatrixView From(std::int64_t row, std::int64_t column) const {
    return {data + row * row_stride + column, row_stride, rows - row, columns - column, aligned};
  }
};

template <DataType kDtype>
class TileEngine {
 public:
  using Storage = std::uint16_t;
  using Accumulator = sm80::Accumulators<1, kTileSize / 8>;
  static constexpr int kSharedBytes = 2 * kTileSize * kTileSize * sizeof(Storage);

  __device__ __forceinline__ explicit TileEngine(char* shared)
      : shared_(shared),
        a_(ptx::SharedAddress(shared)),
        b_(a_ + kSharedBytes / 2),
        warp_row_(16 * (threadIdx.x / 32)),
        lane_(threadIdx.x % 32) {}

  // out += a b^T over kTileSize columns of both, which must be zero-filled: one step of a loop over
  // their columns.
  __device__ __forceinline__ void AddProductTransposed(Accumulator& out,
                                                       const MatrixView<Storage>& a,
                                                       const MatrixView<Storage>& b) {
    Load(0, a);
    Load(1, b);
    Wait();
    sm80::MultiplyQueriesKeys<kDtype>(out, sm80::QueryFragments<kTileSize>(a_, warp_row_, lane_),
                                      sm80::KeyFragments<kTileSize>(b_, lane_));
    __syncthreads();
  }

  // out += a b over kTileSize columns of a and rows of b; a is rounded to kDtype, as a caller of an
  // un-fused product would.
  __device__ __forceinline__ void AddProduct(Accumulator& out, const MatrixView<float>& a,
                                             const MatrixView<Storage>& b) {
    Load(1, b);
    Accumulator weights;
    weights.Clear();
    ForEach(weights, [&](float& value, int row, int column) {
      if (row < a.rows && column < a.columns) value = a.data[row * a.row_stride + column];
    });
    Wait();
    sm80::MultiplyWeightsValues<kDtype>(out, weights, sm80::ValueFragments<kTileSize>(b_, lane_));
    __syncthreads();
  }

  // Calls apply(value&, row, column) for this thread's share of the tile.
  template <typename Apply>
  __device__ __forceinline__ void ForEach(Accumulator& tile, Apply apply) const {
#pragma unroll
    for (int j = 0; j < kTileSize / 8; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        apply(tile.values[0][j][e], warp_row_ + lane_ / 4 + 8 * (e / 2),
              8 * j + 2 * (lane_ % 4) + e % 2);
  }
  template <typename Apply>
  __device__ __forceinline__ void ForEachOfProduct(Accumulator& tile, Apply apply) const {
    ForEach(tile, apply);
  }
  static __device__ __forceinline__ void Clear(Accumulator& tile) { tile.Clear(); }

 private:
  __device__ __forceinline__ void Load(int operand, const MatrixView<Storage>& matrix) {
    if (matrix.aligned) {
      sm80::LoadTileAsync<kTileSize, kTileSize, kTileThreads>(operand == 0 ? a_ : b_, matrix.data,
                                                              matrix.row_stride, Clamp(matrix.rows),
                                                              Clamp(matrix.columns));
    } else {
      LoadElements(shared_ + operand * (kSharedBytes / 2), matrix);
    }
  }

  static __device__ __forceinline__ int Clamp(std::int64_t size) {
    return static_cast<int>(min(size, std::int64_t{kTileSize}));
  }

  __device__ __forceinline__ void LoadElements(char* tile, const MatrixView<Storage>& matrix) {
    for (int index = threadIdx.x; index < kTileSize * kTileSize; index += kTileThreads) {
      const int row = index / kTileSize;
      const int column = index % kTileSize;
      const bool valid = row < matrix.rows && column < matrix.columns;
      *reinterpret_cast<Storage*>(tile + sm80::TileLayout<kTileSize>::Offset(row, column / 8) +
                                  2 * (column % 8)) =
          valid ? matrix.data[row * matrix.row_stride + column] : Storage{0};
    }
  }

  __device__ __forceinline__ void Wait() {
    ptx::CpAsyncCommit();
    ptx::CpAsyncWait<0>();
    __syncthreads();
  }

  char* shared_;
  std::uint32_t a_;
  std::uint32_t b_;
  int warp_row_;
  int lane_;
};

template <>
class TileEngine<DataType::kFloat32> {
  static constexpr int kRows = 8;
  static constexpr int kColumns = 4;
  static constexpr int kStride = kTileSize + simt::kPadding;

 public:
  using Storage = float;
  struct Accumulator {
    float values[kRows][kColumns];
  };
  static constexpr int kSharedBytes = 2 * kTileSize * kStride * sizeof(float);
  static_assert(simt::kThreads == kTileThreads);

  __device__ __forceinline__ explicit TileEngine(char* shared)
      : a_(reinterpret_cast<float*>(shared)), b_(a_ + kTileSize * kStride) {}

  __device__ __forceinline__ void AddProductTransposed(Accumulator& out, const MatrixView<float>& a,
                                                       const MatrixView<float>& b) {
    Load(a_, a);
    Load(b_, b);
    __syncthreads();
    simt::MultiplyTransposed(out.values, a_, kStride, b_, kStride, kTileSize);
    __syncthreads();
  }

  __device__ __forceinline__ void AddProduct(Accumulator& out, const MatrixView<float>& a,
                                             const MatrixView<float>& b) {
    Load(a_, a);
    Load(b_, b);
    __syncthreads();
    simt::Multiply(out.values, a_, kStride, b_, kStride, kTileSize);
    __syncthreads();
  }

  template <typename Apply>
  __device__ __forceinline__ void ForEach(Accumulator& tile, Apply apply) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
        apply(tile.values[i][j], simt::ThreadRow() * kRows + i,
              simt::ThreadColumn() + simt::kThreadColumns * j);
  }
  template <typename Apply>
  __device__ __forceinline__ void ForEachOfProduct(Accumulator& tile, Apply apply) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
        apply(tile.values[i][j], simt::ThreadRow() * kRows + i, 4 * simt::ThreadColumn() + j);
  }
  static __device__ __forceinline__ void Clear(Accumulator& tile) {
#pragma unroll
    for (auto& row : tile.values)
#pragma unroll
      for (float& value : row) value = 0.0f;
  }

 private:
  static __device__ __forceinline__ void Load(float* tile, const MatrixView<float>& matrix) {
    simt::LoadTile<DataType::kFloat32, kTileSize, kTileSize>(
        tile, kStride, matrix.data, matrix.row_stride, matrix.rows, matrix.columns, matrix.aligned);
  }

  float* a_;
  float* b_;
};

}  // namespace attnd::cuda
