// mbarrier: the shared-memory barrier that counts arriving threads and bytes of asynchronous
// copies. Barriers are named by their shared-memory address. PTX ISA, "Parallel Synchronization and
// Communication Instructions: mbarrier".
#pragma once

#include <cstdint>

namespace attnd::cuda::ptx {

// A phase of the barrier completes when `arrivals` threads have arrived and all expected bytes have
// landed.
__device__ __forceinline__ void MbarrierInit(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes this thread's MbarrierInit calls visible to the copy engine.
__device__ __forceinline__ void FenceMbarrierInit() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives; everything this thread did before is visible to whoever waits for the phase.
__device__ __forceinline__ void MbarrierArrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and makes the phase wait for `bytes` more bytes of asynchronous copies.
__device__ __forceinline__ void MbarrierArriveExpectBytes(std::uint32_t barrier,
                                                          std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

// True once the phase of parity `parity` has completed; may suspend the thread for a while before
// it says no. A fresh barrier answers true for parity 1: the phase before the first one.
__device__ __forceinline__ bool MbarrierTryWait(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

__device__ __forceinline__ void MbarrierWait(std::uint32_t barrier, std::uint32_t parity) {
  while (!MbarrierTryWait(barrier, parity)) {
  }
}

}  // namespace attnd::cuda::ptx
