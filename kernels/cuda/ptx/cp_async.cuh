// cp.async: 16-byte copies from global to shared memory that bypass registers (sm_80 and newer).
#pragma once

#include <cstdint>

namespace attnd::cuda::ptx {

// Copies 16 bytes, or writes 16 zero bytes without reading `source` if `valid` is false. Both
// addresses are multiples of 16.
__device__ __forceinline__ void CpAsync16(std::uint32_t destination, const void* source,
                                          bool valid) {
  const int source_bytes = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(destination),
               "l"(__cvta_generic_to_global(source)), "r"(source_bytes)
               : "memory");
}

// Closes the group of this thread's copies issued since the last call.
__device__ __forceinline__ void CpAsyncCommit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most kPending of this thread's newest groups are still under way. Other threads
// see the data only after a barrier that follows.
template <int kPending>
__device__ __forceinline__ void CpAsyncWait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace attnd::cuda::ptx
