// The key blocks of a tile, from right to left, as its producer, its consumers and its array loader
// all go through them.
#pragma once

#include "kernels/cuda/sm90/kernel_args.h"
#include "kernels/cuda/sm90/tile_work.cuh"

namespace attnd::cuda::sm90 {

// Passes over the blocks that a mask hides from all of the tile's rows. The last block before an
// end, and a TileWork's first, are never such.
template <typename Traits>
class BlockWalk {
 public:
  __device__ __forceinline__ BlockWalk() {}  // of no tile
  // Over the blocks before `end`: work.block_end, or that of a consumer's own share.
  __device__ __forceinline__ BlockWalk(const KernelArgs& args, const TileWork& work, int end)
      : row_(Traits::kMasks ? work.classes : nullptr),
        all_(BlockClasses::All(Traits::kMasks ? BlockClass::kPartial : BlockClass::kFull)),
        block_(end - 1),
        begin_(work.block_begin),
        classes_(Look(block_)) {}

  __device__ __forceinline__ int block() const { return block_; }
  __device__ __forceinline__ BlockClass ClassFor(int group) const { return classes_.Of(group); }
  __device__ __forceinline__ bool AtLast() const { return block_ == begin_; }

  // To the next block. Must not be at the last one.
  __device__ __forceinline__ void Step() {
    do {
      classes_ = Look(--block_);
    } while (classes_.empty());
  }

 private:
  __device__ __forceinline__ BlockClasses Look(int block) const {
    return Traits::kMasks && row_ != nullptr ? row_[block] : all_;
  }

  const BlockClasses* row_;  // nullptr: no classes
  BlockClasses all_;         // those of every block then
  int block_;
  int begin_;
  BlockClasses classes_;
};

}  // namespace attnd::cuda::sm90
