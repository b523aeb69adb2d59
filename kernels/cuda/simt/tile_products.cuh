// Matrix products of float32 tiles in shared memory with plain multiply-adds: true float32, no
// tf32. 128 threads stand in 8 x 16; thread (y, x) owns rows y kRows + i and columns that it shares
// with no other.
#pragma once

#include <cstdint>

#include "kernels/cuda/element.cuh"

namespace attnd::cuda::simt {

inline constexpr int kThreads = 128;
inline constexpr int kThreadColumns = 16;

__device__ __forceinline__ int ThreadRow() { return threadIdx.x / kThreadColumns; }
__device__ __forceinline__ int ThreadColumn() { return threadIdx.x % kThreadColumns; }

// Shared rows are this many elements longer than the tile, so that the rows that neighbouring
// threads read 16 bytes of start in different banks.
inline constexpr int kPadding = 4;

// Copies rows [0, valid_rows) x columns [0, valid_columns) of a matrix to the tile, widened, and
// zeros to the rest of its kRows x kColumns. Called by all threads. `aligned`: every row of the
// matrix starts at a multiple of 16 bytes, and valid_columns is a multiple of 8.
template <DataType kDtype, int kRows, int kColumns>
__device__ __forceinline__ void LoadTile(float* tile, int tile_stride,
                                         const typename Element<kDtype>::Storage* matrix,
                                         std::int64_t row_stride, std::int64_t valid_rows,
                                         std::int64_t valid_columns, bool aligned) {
  using Storage = typename Element<kDtype>::Storage;
  if (!aligned) {
    for (int index = threadIdx.x; index < kRows * kColumns; index += kThreads) {
      const int row = index / kColumns;
      const int column = index % kColumns;
      const bool valid = row < valid_rows && column < valid_columns;
      tile[row * tile_stride + column] =
          valid ? Element<kDtype>::ToFloat(matrix[row * row_stride + column]) : 0.0f;
    }
    return;
  }
  constexpr int kVector = 16 / sizeof(Storage);
  constexpr int kVectorsPerRow = kColumns / kVector;
  constexpr int kVectors = kRows * kVectorsPerRow;
  static_assert(kVectors % kThreads == 0);
#pragma unroll 8
  for (int i = 0; i < kVectors / kThreads; ++i) {
    const int index = i * kThreads + threadIdx.x;
    const int row = index / kVectorsPerRow;
    const int column = index % kVectorsPerRow * kVector;
    uint4 bits = make_uint4(0, 0, 0, 0);
    if (row < valid_rows && column < valid_columns)
      bits = *reinterpret_cast<const uint4*>(matrix + row * row_stride + column);
    const Storage* const elements = reinterpret_cast<const Storage*>(&bits);
    float* const destination = tile + row * tile_stride + column;
#pragma unroll
    for (int e = 0; e < kVector; e += 4)
      *reinterpret_cast<float4*>(destination + e) = make_float4(
          Element<kDtype>::ToFloat(elements[e]), Element<kDtype>::ToFloat(elements[e + 1]),
          Element<kDtype>::ToFloat(elements[e + 2]), Element<kDtype>::ToFloat(elements[e + 3]));
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

}  // namespace attnd::cuda::simt
