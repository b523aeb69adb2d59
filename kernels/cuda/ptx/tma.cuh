// The bulk tensor copy engine (TMA): one thread asks, the hardware moves a box of a tensor to
// shared memory, or back. PTX ISA, "cp.async.bulk.tensor".
#pragma once

#include <cuda.h>

#include <cstdint>

namespace attnd::cuda::ptx {

// How long the second-level cache should keep the lines a copy touches. These are the encoded
// policies that createpolicy.fractional yields for a fraction of 1.
enum class CachePolicy : std::uint64_t {
  kEvictNormal = 0x1000000000000000,
  kEvictFirst = 0x12F0000000000000,
  kEvictLast = 0x14F0000000000000,
};

__device__ __forceinline__ void PrefetchTensorMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Copies the box of `map` at element coordinates (c0, c1, c2, c3), innermost first, to shared
// memory at `destination`. Parts outside the tensor are filled with zeros. `barrier` counts the
// whole box in bytes once it has landed.
__device__ __forceinline__ void TmaLoad4d(std::uint32_t destination, const CUtensorMap* map,
                                          std::uint32_t barrier, CachePolicy policy, int c0, int c1,
                                          int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(destination),
      "l"(map), "r"(barrier), "l"(static_cast<std::uint64_t>(policy)), "r"(c0), "r"(c1), "r"(c2),
      "r"(c3)
      : "memory");
}

// TmaLoad4d to the same place in every block of the cluster that has a bit in `blocks`, and to the
// barrier there.
__device__ __forceinline__ void TmaLoad4dMulticast(std::uint32_t destination,
                                                   const CUtensorMap* map, std::uint32_t barrier,
                                                   CachePolicy policy, std::uint16_t blocks, int c0,
                                                   int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%4, %5, %6, %7}], [%2], %8, %3;" ::"r"(
          destination),
      "l"(map), "r"(barrier), "l"(static_cast<std::uint64_t>(policy)), "r"(c0), "r"(c1), "r"(c2),
      "r"(c3), "h"(blocks)
      : "memory");
}

// Copies the box at `source` in shared memory to the tensor; parts outside it are left out. Only a
// thread whose `chosen` is true asks, and the copy belongs to its bulk group at hand: a branch
// around the call would cost the compiler its belief that the warp runs together. What was written
// to the box before needs a FenceProxyAsyncShared by the writers.
__device__ __forceinline__ void TmaStore4d(bool chosen, const CUtensorMap* map,
                                           std::uint32_t source, int c0, int c1, int c2, int c3) {
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "setp.ne.u32 p, %6, 0;\n"
      "@p cp.async.bulk.tensor.4d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4, %5}], "
      "[%1];\n"
      "}\n" ::"l"(map),
      "r"(source), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(static_cast<std::uint32_t>(chosen))
      : "memory");
}

// Ends this thread's bulk group; the next copies belong to another.
__device__ __forceinline__ void BulkCommit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all but the last kPending bulk groups of this thread have read their sources.
template <int kPending>
__device__ __forceinline__ void BulkWaitRead() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kPending) : "memory");
}

}  // namespace attnd::cuda::ptx
