// The two matrix products of a tile on the tensor cores, for one warp: scores += q k^T and out += p
// v.
#pragma once

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/ptx/ldmatrix.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/sm80/shared_tile.cuh"

namespace attnd::cuda::sm80 {

// Accumulators of kFragmentsM x kFragmentsN fragments of 16 rows x 8 columns. A lane's elements 2h,
// 2h + 1 of a fragment belong to row lane / 4 + 8h and columns 2 (lane % 4) and the next.
template <int kFragmentsM, int kFragmentsN>
struct Accumulators {
  float values[kFragmentsM][kFragmentsN][4];

  __device__ __forceinline__ void Clear() {
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) values[i][j][e] = 0.0f;
  }
};

// Lane offsets of the operand fragments. A (q): rows from the low four bits of the lane, second
// chunk from lane 16 on. B read as stored (k): two groups of eight keys, each with both chunks. B
// read transposed (v): keys as rows of A.
template <int kHeadDim>
__device__ __forceinline__ FragmentAddress<kHeadDim> QueryFragments(std::uint32_t tile,
                                                                    int first_row, int lane) {
  return FragmentAddress<kHeadDim>(tile, first_row + (lane & 15), lane >> 4);
}
template <int kHeadDim>
__device__ __forceinline__ FragmentAddress<kHeadDim> KeyFragments(std::uint32_t tile, int lane) {
  return FragmentAddress<kHeadDim>(tile, (lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
}
template <int kHeadDim>
__device__ __forceinline__ FragmentAddress<kHeadDim> ValueFragments(std::uint32_t tile, int lane) {
  return FragmentAddress<kHeadDim>(tile, lane & 15, lane >> 4);
}

// scores += q k^T over kHeadDim.
template <DataType kDtype, int kHeadDim, int kFragmentsM, int kFragmentsN>
__device__ __forceinline__ void MultiplyQueriesKeys(Accumulators<kFragmentsM, kFragmentsN>& scores,
                                                    const FragmentAddress<kHeadDim>& queries,
                                                    const FragmentAddress<kHeadDim>& keys) {
#pragma unroll
  for (int step = 0; step < kHeadDim / 16; ++step) {
    std::uint32_t a[kFragmentsM][4];
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i) ptx::LoadMatrixX4(a[i], queries.At(16 * i, step));
#pragma unroll
    for (int j = 0; j < kFragmentsN / 2; ++j) {
      std::uint32_t b[4];
      ptx::LoadMatrixX4(b, keys.At(16 * j, step));
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) {
        ptx::MmaM16N8K16<kDtype>(scores.values[i][2 * j], a[i], b[0], b[1]);
        ptx::MmaM16N8K16<kDtype>(scores.values[i][2 * j + 1], a[i], b[2], b[3]);
      }
    }
  }
}

// out += p v. The weights are rounded to kDtype and used as operands straight from the registers
// that hold them: an accumulator's layout is that of operand A.
template <DataType kDtype, int kHeadDim, int kFragmentsM, int kFragmentsN>
__device__ __forceinline__ void MultiplyWeightsValues(
    Accumulators<kFragmentsM, kHeadDim / 8>& out,
    const Accumulators<kFragmentsM, kFragmentsN>& weights,
    const FragmentAddress<kHeadDim>& values) {
#pragma unroll
  for (int step = 0; step < kFragmentsN / 2; ++step) {
    std::uint32_t a[kFragmentsM][4];
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i) {
      const auto& left = weights.values[i][2 * step];
      const auto& right = weights.values[i][2 * step + 1];
      a[i][0] = Element<kDtype>::Pack(left[0], left[1]);
      a[i][1] = Element<kDtype>::Pack(left[2], left[3]);
      a[i][2] = Element<kDtype>::Pack(right[0], right[1]);
      a[i][3] = Element<kDtype>::Pack(right[2], right[3]);
    }
#pragma unroll
    for (int j = 0; j < kHeadDim / 16; ++j) {
      std::uint32_t b[4];
      ptx::LoadMatrixX4Transposed(b, values.At(16 * step, j));
#pragma unroll
      for (int i = 0; i < kFragmentsM; ++i) {
        ptx::MmaM16N8K16<kDtype>(out.values[i][2 * j], a[i], b[0], b[1]);
        ptx::MmaM16N8K16<kDtype>(out.values[i][2 * j + 1], a[i], b[2], b[3]);
      }
    }
  }
}

}  // namespace attnd::cuda::sm80
