// Shared-memory addresses as PTX takes them.
#pragma once

#include <cstdint>

namespace attnd::cuda::ptx {

// The address of `pointer` within the shared state space.
__device__ __forceinline__ std::uint32_t SharedAddress(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace attnd::cuda::ptx
