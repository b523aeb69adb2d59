// What the warpgroups of a specialised kernel need of each other: registers, named barriers, and
// the order between ordinary stores to shared memory and the engines that read it.
#pragma once

#include <cstdint>

namespace attnd::cuda::ptx {

inline constexpr int kWarpgroupThreads = 128;

// Hands registers beyond `kRegisters` a thread back to the multiprocessor. Every warp of the
// warpgroup runs it.
template <int kRegisters>
__device__ __forceinline__ void ShrinkRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Raises the limit to `kRegisters` a thread; waits until other warpgroups have handed back enough.
template <int kRegisters>
__device__ __forceinline__ void GrowRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Named barrier `id` (1-15; 0 is __syncthreads) of `threads` threads, a multiple of 32: arrive and
// wait.
__device__ __forceinline__ void NamedBarrierSync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Arrives without waiting.
__device__ __forceinline__ void NamedBarrierArrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Orders this thread's ordinary stores to shared memory before later reads of the tensor cores and
// the copy engine; follow it with a barrier.
__device__ __forceinline__ void FenceProxyAsyncShared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// 16 zero bytes, by an ordinary store.
__device__ __forceinline__ void StoreSharedZeros(std::uint32_t address) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(address), "r"(0) : "memory");
}

}  // namespace attnd::cuda::ptx
