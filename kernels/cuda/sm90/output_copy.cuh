// The way of finished rows to global memory through shared memory and the copy engine: half the
// instructions that stores from registers take.
#pragma once

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/ptx/stmatrix.cuh"
#include "kernels/cuda/ptx/tma.cuh"
#include "kernels/cuda/ptx/warpgroup.cuh"

namespace attnd::cuda::sm90 {

// Rows of a wgmma accumulator that a warp owns, and copies on its own.
inline constexpr int kWarpRows = 16;

// One warp's 16 finished rows of kDim columns, by way of kWarpRows * kDim * 2 bytes of shared
// memory from `staging` on: column chunks of one swizzle span, as those of a q tile.
template <DataType kDtype, int kDim, int kSwizzleBytes>
class OutputCopy {
 public:
  __device__ __forceinline__ explicit OutputCopy(std::uint32_t staging) : staging_(staging) {}

  // Starts the copy of `o` to rows [row, row + 16) of (head, batch), all of which are the tile's.
  __device__ __forceinline__ void Start(const CUtensorMap* map, int row, int head, int batch,
                                        const float (&o)[kDim / 2]) const {
    AwaitRead();
    __syncwarp();
#pragma unroll
    for (int pair = 0; pair < kDim / 16; ++pair) {
      std::uint32_t matrices[4];  // rows 0-7 and 8-15 of one group of 8 columns, then of the next
#pragma unroll
      for (int i = 0; i < 4; ++i)
        matrices[i] = Element<kDtype>::Pack(o[8 * pair + 2 * i], o[8 * pair + 2 * i + 1]);
      ptx::StoreMatrixX4(MatrixRow(pair), matrices);
    }
    ptx::FenceProxyAsyncShared();
    __syncwarp();
#pragma unroll
    for (int chunk = 0; chunk < kDim / kChunkColumns; ++chunk)
      ptx::TmaStore4d(threadIdx.x % 32 == 0, map, staging_ + chunk * kChunkBytes,
                      chunk * kChunkColumns, row, head, batch);
    ptx::BulkCommit();
  }

  // Before the block ends: nothing may be read from its shared memory any more.
  static __device__ __forceinline__ void AwaitRead() { ptx::BulkWaitRead<0>(); }

 private:
  static constexpr int kChunkColumns = kSwizzleBytes / 2;
  static constexpr int kChunkBytes = kWarpRows * kSwizzleBytes;

  // The address that this lane gives for its matrix's row: 16 bytes, whose place in the row is
  // swizzled by the row as the copy engine expects.
  __device__ __forceinline__ std::uint32_t MatrixRow(int pair) const {
    const int lane = threadIdx.x % 32;
    const int row = lane % 16;
    const int unit = 2 * pair + lane / 16;  // group of 8 columns
    constexpr int kUnits = kSwizzleBytes / 16;
    const std::uint32_t offset = row * kSwizzleBytes + unit % kUnits * 16;
    return staging_ + unit / kUnits * kChunkBytes + (offset ^ (offset >> 3 & (kUnits - 1) * 16));
  }

  std::uint32_t staging_;
};

}  // namespace attnd::cuda::sm90
