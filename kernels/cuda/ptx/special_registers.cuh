// Special registers that C++ names too, but as constants, which a compiler keeps in registers.
#pragma once

namespace attnd::cuda::ptx {

// Blocks of a one-dimensional grid, read where it is wanted. (As gridDim.x it was kept by a warp
// that had 32 registers, and spilled.)
__device__ __forceinline__ int NumBlocks() {
  int blocks;
  asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(blocks));
  return blocks;
}

}  // namespace attnd::cuda::ptx
