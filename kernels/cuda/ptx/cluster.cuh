// Clusters: blocks on neighbouring multiprocessors that can write to each other's shared memory and
// arrive at each other's barriers. PTX ISA, "Cluster of CTAs" and "mapa".
#pragma once

#include <cstdint>

namespace attnd::cuda::ptx {

// This block's place in its cluster.
__device__ __forceinline__ std::uint32_t ClusterRank() {
  std::uint32_t rank;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// Waits for all threads of all blocks of the cluster; what they did before is visible to all.
__device__ __forceinline__ void ClusterSync() {
  asm volatile(
      "barrier.cluster.arrive.release;\n"
      "barrier.cluster.wait.acquire;\n" ::
          : "memory");
}

// Arrives at the barrier that lies in block `rank` where `barrier` lies in this one. With a release
// at the scope of the cluster, which would order this thread's own accesses too, it would fence; a
// stage that only the tensor cores and the copy engine touch needs none.
__device__ __forceinline__ void MbarrierArriveAt(std::uint32_t barrier, std::uint32_t rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}

}  // namespace attnd::cuda::ptx
