// Tile classes of a boolean mask: which blocks of keys a tile of queries can pass over, and which
// it need not look up.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/attention_params.h"
#include "kernels/host_device.h"

namespace attnd::cuda::sm90 {

struct TileShape {
  int rows;  // of which each warpgroup has 64
  int keys;
};

// What a mask says of a block of keys, for the 64 rows of one warpgroup.
enum class BlockClass : std::uint8_t { kEmpty, kPartial, kFull };  // none, some, all may be seen

// The classes of a block for a tile's warpgroups, two bits each; 0: nobody sees any of it.
struct BlockClasses {
  std::uint8_t bits;

  ATTND_HOST_DEVICE bool empty() const { return bits == 0; }
  ATTND_HOST_DEVICE BlockClass Of(int group) const {
    return static_cast<BlockClass>(bits >> 2 * group & 3);
  }
  static ATTND_HOST_DEVICE BlockClasses All(BlockClass c) {
    return {static_cast<std::uint8_t>(static_cast<int>(c) * 0b010101)};
  }
};

// The classes of all tiles: [batch, heads, rows, blocks] where the mask has a batch, heads and
// rows, else 1 each. Absent (no memory): every block is to be looked up.
struct TileClasses {
  BlockClasses* memory = nullptr;  // of the device
  std::int64_t batch = 0;
  std::int64_t heads = 0;
  std::int64_t rows = 0;  // of tiles
  std::int64_t blocks = 0;

  std::int64_t size() const { return batch * heads * rows * blocks; }

  // Those of the tile that begins with row `m_block` times the tile's rows, one for each block.
  ATTND_HOST_DEVICE const BlockClasses* Row(std::int64_t b, std::int64_t head,
                                            std::int64_t m_block) const {
    const std::int64_t plane = (batch > 1 ? b : 0) * heads + (heads > 1 ? head : 0);
    return memory + (plane * rows + (rows > 1 ? m_block : 0)) * blocks;
  }
};

// Without memory. Empty (size 0) where classes would not pay: without a mask, and for sequences of
// a few blocks, which are done before a kernel for the classes is.
TileClasses DescribeTileClasses(const AttentionParams& p, TileShape shape);

// Enqueues the work that fills `classes`, whose memory is size() bytes.
cudaError_t ClassifyTiles(const AttentionParams& p, TileShape shape, const TileClasses& classes,
                          cudaStream_t stream);

}  // namespace attnd::cuda::sm90
