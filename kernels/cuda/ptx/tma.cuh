// The bulk tensor copy engine (TMA): one thread asks for a box of a tensor, the hardware writes it
// to shared memory. PTX ISA, "cp.async.bulk.tensor".
#pragma once

#include <cuda.h>

#include <cstdint>

namespace attnd::cuda::ptx {

// How long the second-level cache should keep the lines a copy touches. These are the encoded
// policies that createpolicy.fractional yields for a fraction of 1.
enum class CachePolicy : std::uint64_t {
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

}  // namespace attnd::cuda::ptx
