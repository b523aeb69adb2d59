// Tile sizes and the shared-memory plan of tiled attention on plain multiply-adds.
#pragma once

#include "kernels/cuda/simt/tile_products.cuh"

namespace attnd::cuda::simt {

// A thread owns kRows rows and kKeys keys of a score tile. Wide heads take smaller tiles, which
// keeps shared memory under the 99 KiB that every device from compute capability 8.0 on has.
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
  static constexpr int kWorkBytes = 128;  // room for a TileWork behind the tiles
  static constexpr int kSharedBytes =
      4 * (kQueryElements + kKeyElements + kWeightElements) + kWorkBytes;
};

}  // namespace attnd::cuda::simt
