// The way of bias and mask to the consumers: the copy engine brings each warpgroup the blocks that
// belong to its scores, as far ahead as there is room.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/tma.cuh"
#include "kernels/cuda/sm90/block_walk.cuh"
#include "kernels/cuda/sm90/kernel_args.h"
#include "kernels/cuda/sm90/shared_map.cuh"

namespace attnd::cuda::sm90 {

// What a slot of a warpgroup's ring holds: a block of 64 rows of the bias, then one of the mask;
// either only if the copy engine brings it.
template <typename Traits>
class ArraySlots {
 public:
  __device__ __forceinline__ explicit ArraySlots(const KernelArgs& args)
      : bias_bytes_(!args.copy_bias                           ? 0
                    : args.p.bias.dtype == DataType::kFloat32 ? Traits::kWideBiasBytes
                                                              : Traits::kBiasBytes),
        mask_bytes_(args.copy_mask ? Traits::kMaskBytes : 0),
        last_slot_(2 * bytes() <= Traits::kArrayBytes ? 1 : 0) {}

  __device__ __forceinline__ int bias_bytes() const { return bias_bytes_; }
  __device__ __forceinline__ int bytes() const { return bias_bytes_ + mask_bytes_; }
  // What is copied of them: of a block that the mask hides or shows whole, not the mask. Of a block
  // of which nothing is copied there is no slot.
  __device__ __forceinline__ int BytesFor(BlockClass c) const {
    return bias_bytes_ + (c == BlockClass::kPartial ? mask_bytes_ : 0);
  }

  // The slot at hand after `passed` of them, and the parity of its barriers' phase. One or two
  // slots.
  __device__ __forceinline__ int Slot(std::uint32_t passed) const { return passed & last_slot_; }
  __device__ __forceinline__ std::uint32_t Parity(std::uint32_t passed) const {
    return passed >> last_slot_ & 1;
  }

 private:
  int bias_bytes_;
  int mask_bytes_;
  int last_slot_;
};

// A warp of its own, so that k and v never wait for room for these.
template <typename Traits>
class ArrayLoader {
 public:
  __device__ __forceinline__ ArrayLoader(const KernelArgs& args, const SharedMap<Traits>& shared)
      : args_(args), shared_(shared), slots_(args) {}

  // Run by one thread.
  __device__ __forceinline__ void Run() {
    for (RingPosition<Traits::kWorkSlots> work_slot;; work_slot.Advance()) {
      ptx::MbarrierWait(shared_.WorkFull(work_slot.stage()), work_slot.parity());
      const TileWork& work = shared_.Work(work_slot.stage());
      if (work.batch < 0) return;
      LoadTile(work, shared_.WorkFree(work_slot.stage()));
    }
  }

 private:
  // In the order in which the consumers need them.
  __device__ __forceinline__ void LoadTile(const TileWork& work, std::uint32_t work_free) {
    place_ = {work.batch, work.head, work.first_row};
    int end[Traits::kConsumers];
    for (int group = 0; group < Traits::kConsumers; ++group)
      end[group] = work.HasRows(group) ? work.groups[group].end : 0;
    BlockWalk<Traits> walk(args_, work, work.block_end);
    ptx::MbarrierArrive(work_free);
    if (slots_.bytes() == 0) return;
    for (;; walk.Step()) {
#pragma unroll
      for (int group = 0; group < Traits::kConsumers; ++group) {
        const BlockClass c = walk.ClassFor(group);
        if (walk.block() < end[group] && slots_.BytesFor(c) > 0) LoadBlock(walk.block(), c, group);
      }
      if (walk.AtLast()) return;
    }
  }

  __device__ __forceinline__ void LoadBlock(int block, BlockClass c, int group) {
    const std::uint32_t passed = passed_[group]++;
    const int slot = slots_.Slot(passed);
    const std::uint32_t full = shared_.ArrayFull(group, slot);
    const std::uint32_t destination = shared_.Arrays(group) + slot * slots_.bytes();
    const int row = place_.first_row + 64 * group;
    ptx::MbarrierWait(shared_.ArrayFree(group, slot), slots_.Parity(passed) ^ 1);
    ptx::MbarrierArriveExpectBytes(full, slots_.BytesFor(c));
    if (args_.copy_bias) Load(&args_.bias_map, args_.p.bias, destination, full, block, row);
    if (args_.copy_mask && c == BlockClass::kPartial)
      Load(&args_.mask_map, args_.p.mask, destination + slots_.bias_bytes(), full, block, row);
  }

  template <typename View>
  __device__ __forceinline__ void Load(const CUtensorMap* map, const View& view,
                                       std::uint32_t destination, std::uint32_t full, int block,
                                       int row) {
    ptx::TmaLoad4d(destination, map, full, ptx::CachePolicy::kEvictNormal, block * Traits::kBlockN,
                   row, view.heads > 1 ? place_.head : 0, view.batch > 1 ? place_.batch : 0);
  }

  // Of the tile at hand.
  struct Place {
    int batch;
    int head;
    int first_row;
  };

  const KernelArgs& args_;
  const SharedMap<Traits>& shared_;
  const ArraySlots<Traits> slots_;
  Place place_ = {};
  std::uint32_t passed_[Traits::kConsumers] = {};
};

}  // namespace attnd::cuda::sm90
