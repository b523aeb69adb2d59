// A tile of 16-bit rows in shared memory: asynchronous loads, fragment addresses, and the swizzle
// that both agree on.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx/cp_async.cuh"

namespace attnd::cuda::sm80 {

// Rows of kHeadDim elements lie next to each other, in chunks of 16 bytes. Chunk c of row r is
// stored at position c ^ Phase(r), so that the eight rows that one ldmatrix phase reads fall into
// eight different groups of four banks.
template <int kHeadDim>
struct TileLayout {
  static constexpr int kChunks = kHeadDim / 8;
  static constexpr int kRowBytes = 2 * kHeadDim;

  static __device__ __forceinline__ int Phase(int row) {
    return kChunks % 8 == 0 ? row & 7 : (row >> 1) & 3;
  }

  static __device__ __forceinline__ std::uint32_t Offset(int row, int chunk) {
    return row * kRowBytes + ((chunk ^ Phase(row)) << 4);
  }
};

// Starts copying rows [0, valid_rows) x columns [0, dim) of a matrix to the tile and zeros to the
// rest of its kRows rows, so that nothing beyond a sequence or a head is ever read. Called by all
// kThreads threads. `rows` and 2 * row_stride are multiples of 16 bytes, dim of 8.
//
// A thread keeps its column within a group of chunks and moves down by a multiple of 8 rows at a
// time: its phase stays, so that one address and immediates do for all its chunks. Addresses kept
// per chunk would not fit in registers.
template <int kRows, int kHeadDim, int kThreads>
__device__ __forceinline__ void LoadTileAsync(std::uint32_t tile, const std::uint16_t* rows,
                                              std::int64_t row_stride, int valid_rows, int dim) {
  using Layout = TileLayout<kHeadDim>;
  constexpr int kGroup = Layout::kChunks % 8 == 0 ? 8 : 4;
  constexpr int kRowStep = kThreads / kGroup;
  static_assert(kRows % kRowStep == 0 && kRowStep % 8 == 0 && Layout::kChunks % kGroup == 0);
  const int first_row = threadIdx.x / kGroup;
  const int first_chunk = threadIdx.x % kGroup;
  const std::uint16_t* source = rows + first_row * row_stride + first_chunk * 8;
  const std::uint32_t destination = tile + Layout::Offset(first_row, first_chunk);
#pragma unroll
  for (int row = 0; row < kRows; row += kRowStep) {
#pragma unroll
    for (int chunk = 0; chunk < Layout::kChunks; chunk += kGroup) {
      const bool valid = first_row + row < valid_rows && (first_chunk + chunk) * 8 < dim;
      ptx::CpAsync16(destination + row * Layout::kRowBytes + chunk * 16, source + chunk * 8, valid);
    }
    source += kRowStep * row_stride;
  }
}

// Addresses of 16x16 blocks of a tile as one lane gives them to ldmatrix.x4. The lane points into
// row `lane_row` and chunk `lane_chunk` (0 or 1) of each block.
template <int kHeadDim>
class FragmentAddress {
 public:
  __device__ __forceinline__ FragmentAddress(std::uint32_t tile, int lane_row, int lane_chunk)
      : row_(tile + lane_row * TileLayout<kHeadDim>::kRowBytes),
        swizzle_((lane_chunk ^ TileLayout<kHeadDim>::Phase(lane_row)) << 4) {}

  // The block of 16 rows from `row`, a multiple of 16, and columns from 16 * block_column. Moving
  // by 16 rows keeps the phase, and 2 * block_column has no bit in common with lane_chunk: one xor
  // finds the chunk.
  __device__ __forceinline__ std::uint32_t At(int row, int block_column) const {
    return row_ + row * TileLayout<kHeadDim>::kRowBytes + (swizzle_ ^ (block_column << 5));
  }

 private:
  std::uint32_t row_;
  std::uint32_t swizzle_;
};

}  // namespace attnd::cuda::sm80
