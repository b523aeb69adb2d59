// Where the Hopper kernel keeps what in shared memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/ptx/mbarrier.cuh"
#include "kernels/cuda/ptx/shared_address.cuh"
#include "kernels/cuda/sm90/tile_work.cuh"

namespace attnd::cuda::sm90 {

// What the scheduler has come to. In shared memory because the scheduler is out of registers.
struct SchedulerState {
  int tile;  // index of the tile at hand
  // Of packed sequences: the group of 32 that has the tile.
  int group;       // its first sequence
  int first_tile;  // index of its first tile
};

// Tiles and barriers as addresses in the shared window. The rings of TileWorks, q, k, v, and of
// each warpgroup's blocks of bias and mask, have a "full" and a "free" barrier for every stage;
// WorkWanted is one barrier.
template <typename Traits>
class SharedMap {
 public:
  __device__ __forceinline__ explicit SharedMap(unsigned char* memory)
      : base_(ptx::SharedAddress(memory)),
        works_(reinterpret_cast<TileWork*>(memory + Traits::kWorkOffset)) {}

  // Run by one thread, before any other uses a barrier.
  __device__ __forceinline__ void InitBarriers() const {
    for (int slot = 0; slot < Traits::kWorkSlots; ++slot) {
      ptx::MbarrierInit(WorkFull(slot), 32);
      ptx::MbarrierInit(WorkFree(slot), 128 * Traits::kConsumers + (Traits::kScoreArrays ? 1 : 0));
    }
    ptx::MbarrierInit(WorkWanted(), 1);
    for (int stage = 0; stage < Traits::kQStages; ++stage) {
      ptx::MbarrierInit(QFull(stage), 1);
      ptx::MbarrierInit(QFree(stage), 4 * Traits::kConsumers);
    }
    for (int stage = 0; stage < Traits::kStages; ++stage) {
      ptx::MbarrierInit(KFull(stage), 1);
      ptx::MbarrierInit(KFree(stage), Traits::kClusterSize * Traits::kConsumers);
      ptx::MbarrierInit(VFull(stage), 1);
      ptx::MbarrierInit(VFree(stage), Traits::kClusterSize * Traits::kConsumers);
    }
    for (int group = 0; Traits::kScoreArrays && group < Traits::kConsumers; ++group) {
      for (int slot = 0; slot < 2; ++slot) {
        ptx::MbarrierInit(ArrayFull(group, slot), 1);
        ptx::MbarrierInit(ArrayFree(group, slot), 4);
      }
    }
    ptx::FenceMbarrierInit();
  }

  __device__ __forceinline__ TileWork& Work(int slot) const { return works_[slot]; }
  __device__ __forceinline__ SchedulerState& Scheduler() const {
    return *reinterpret_cast<SchedulerState*>(works_ + Traits::kWorkSlots);
  }

  __device__ __forceinline__ std::uint32_t Q(int stage) const {
    return At(Traits::kQOffset, Traits::kQBytes, stage);
  }
  __device__ __forceinline__ std::uint32_t K(int stage) const {
    return At(Traits::kKOffset, Traits::kKBytes, stage);
  }
  __device__ __forceinline__ std::uint32_t V(int stage) const {
    return At(Traits::kVOffset, Traits::kVBytes, stage);
  }

  // Of consumer warp `warp`: 16 rows of results.
  __device__ __forceinline__ std::uint32_t Out(int warp) const {
    return base_ + Traits::kOutOffset + warp * (Traits::kOutBytes / (4 * Traits::kConsumers));
  }

  // Blocks of bias and mask for a consumer warpgroup.
  __device__ __forceinline__ std::uint32_t Arrays(int group) const {
    return base_ + Traits::kArrayOffset + group * Traits::kArrayBytes;
  }

  __device__ __forceinline__ std::uint32_t WorkFull(int slot) const { return Barrier(slot); }
  __device__ __forceinline__ std::uint32_t WorkFree(int slot) const {
    return Barrier(Traits::kWorkSlots + slot);
  }
  __device__ __forceinline__ std::uint32_t WorkWanted() const {
    return Barrier(2 * Traits::kWorkSlots);
  }
  __device__ __forceinline__ std::uint32_t QFull(int stage) const {
    return Barrier(kFirstQ + stage);
  }
  __device__ __forceinline__ std::uint32_t QFree(int stage) const {
    return Barrier(kFirstQ + Traits::kQStages + stage);
  }
  __device__ __forceinline__ std::uint32_t KFull(int stage) const {
    return Barrier(kFirstK + stage);
  }
  __device__ __forceinline__ std::uint32_t KFree(int stage) const {
    return Barrier(kFirstK + Traits::kStages + stage);
  }
  __device__ __forceinline__ std::uint32_t VFull(int stage) const {
    return Barrier(kFirstV + stage);
  }
  __device__ __forceinline__ std::uint32_t VFree(int stage) const {
    return Barrier(kFirstV + Traits::kStages + stage);
  }
  __device__ __forceinline__ std::uint32_t ArrayFull(int group, int slot) const {
    return Barrier(kFirstArray + 2 * group + slot);
  }
  __device__ __forceinline__ std::uint32_t ArrayFree(int group, int slot) const {
    return Barrier(kFirstArray + Traits::kArrayBarriers + 2 * group + slot);
  }

 private:
  static constexpr int kFirstQ = 2 * Traits::kWorkSlots + 1;
  static constexpr int kFirstK = kFirstQ + 2 * Traits::kQStages;
  static constexpr int kFirstV = kFirstK + 2 * Traits::kStages;
  static constexpr int kFirstArray = kFirstV + 2 * Traits::kStages;
  static_assert(kFirstArray + 2 * Traits::kArrayBarriers == Traits::kBarriers);
  static_assert(sizeof(TileWork) == Traits::kWorkBytes);
  static_assert(sizeof(SchedulerState) == Traits::kSchedulerBytes);

  __device__ __forceinline__ std::uint32_t At(int offset, int stage_bytes, int stage) const {
    return base_ + offset + stage * stage_bytes;
  }
  __device__ __forceinline__ std::uint32_t Barrier(int index) const {
    return base_ + Traits::kBarrierOffset + 8 * index;
  }

  std::uint32_t base_;
  TileWork* works_;
};

// A position in a ring of kStages buffers: how many were passed so far. Runs on across tiles.
template <int kStages>
class RingPosition {
 public:
  static_assert((kStages & (kStages - 1)) == 0, "one register holds stage and lap");

  __device__ __forceinline__ int stage() const { return passed_ % kStages; }
  // Parity of the lap, which is that of the barriers' phase.
  __device__ __forceinline__ std::uint32_t parity() const { return passed_ / kStages % 2; }
  __device__ __forceinline__ void Advance() { ++passed_; }

 private:
  std::uint32_t passed_ = 0;
};

}  // namespace attnd::cuda::sm90
