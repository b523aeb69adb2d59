// Matrix products of float32 tiles in shared memory with plain multiply-adds: true float32, no
// tf32. 128 threads stand in 8 x 16; thread (y, x) owns rows y kRows + i and columns that it shares
// with no other.
#pragma once

#include <cstdint>

namespace attnd::cuda::float32 {

inline constexpr int kThreads = 128;
inline constexpr int kThreadColumns = 16;

__device__ __forceinline__ int ThreadRow() { return threadIdx.x / kThreadColumns; }
__device__ __forceinline__ int ThreadColumn() { return threadIdx.x % kThreadColumns; }

// Shared rows are this many elements longer than the tile, so that the rows that neighbouring
// threads read 16 bytes of start in different banks.
inline constexpr int kPadding = 4;

// Copies rows [0, valid_rows) x columns [0, valid_columns) of a matrix to the tile, and zeros to
// the rest of its rows x columns. Called by all threads.
__device__ __forceinline__ void LoadTile(float* tile, int rows, int columns, int tile_stride,
                                         const float* matrix, std::int64_t row_stride,
                                         std::int64_t valid_rows, std::int64_t valid_columns) {
  for (int index = threadIdx.x; index < rows * columns; index += kThreads) {
    const int row = index / columns;
    const int column = index % columns;
    const bool valid = row < valid_rows && column < valid_columns;
    tile[row * tile_stride + column] = valid ? matrix[row * row_stride + column] : 0.0f;
  }
}

// out[i][j] += sum over d < dim of a[row i][d] b[row x + 16 j][d]. dim is a multiple of 4, strides
// too.
template <int kRows, int kColumns>
__device__ __forceinline__ void MultiplyTransposed(float (&out)[kRows][kColumns], const float* a,
                                                   int a_stride, const float* b, int b_stride,
                                                   int dim) {
  a += ThreadRow() * kRows * a_stride;
  b += ThreadColumn() * b_stride;
  for (int d = 0; d < dim; d += 4) {
    float4 x[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) x[i] = *reinterpret_cast<const float4*>(a + i * a_stride + d);
#pragma unroll
    for (int j = 0; j < kColumns; ++j) {
      const float4 y = *reinterpret_cast<const float4*>(b + kThreadColumns * j * b_stride + d);
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        out[i][j] = __fmaf_rn(x[i].x, y.x, out[i][j]);
        out[i][j] = __fmaf_rn(x[i].y, y.y, out[i][j]);
        out[i][j] = __fmaf_rn(x[i].z, y.z, out[i][j]);
        out[i][j] = __fmaf_rn(x[i].w, y.w, out[i][j]);
      }
    }
  }
}

// out[i][4 c + e] += sum over k < depth of a[row i][k] b[k][64 c + 4 x + e]. depth is a multiple of
// 4, strides too.
template <int kRows, int kColumns>
__device__ __forceinline__ void Multiply(float (&out)[kRows][kColumns], const float* a,
                                         int a_stride, const float* b, int b_stride, int depth) {
  a += ThreadRow() * kRows * a_stride;
  b += 4 * ThreadColumn();
  for (int k = 0; k < depth; k += 4) {
    float4 x[kRows];
#pragma unroll
    for (int i = 0; i < kRows; ++i) x[i] = *reinterpret_cast<const float4*>(a + i * a_stride + k);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
      for (int c = 0; c < kColumns / 4; ++c) {
        const float4 y = *reinterpret_cast<const float4*>(b + (k + step) * b_stride + 64 * c);
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
          const float factor = step == 0   ? x[i].x
                               : step == 1 ? x[i].y
                               : step == 2 ? x[i].z
                                           : x[i].w;
          out[i][4 * c] = __fmaf_rn(factor, y.x, out[i][4 * c]);
          out[i][4 * c + 1] = __fmaf_rn(factor, y.y, out[i][4 * c + 1]);
          out[i][4 * c + 2] = __fmaf_rn(factor, y.z, out[i][4 * c + 2]);
          out[i][4 * c + 3] = __fmaf_rn(factor, y.w, out[i][4 * c + 3]);
        }
      }
    }
  }
}

}  // namespace attnd::cuda::float32
