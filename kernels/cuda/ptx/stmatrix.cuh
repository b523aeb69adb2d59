// stmatrix: a warp stores four 8x8 matrices of 16-bit elements to shared memory (sm_90 and newer).
#pragma once

#include <cstdint>

namespace attnd::cuda::ptx {

// The inverse of LoadMatrixX4: lane 8i + r gives the address of row r (16 bytes, aligned) of matrix
// i; register i holds two adjacent elements of row lane / 4 of matrix i, at columns 2 (lane % 4)
// and the next.
__device__ __forceinline__ void StoreMatrixX4(std::uint32_t row_address,
                                              const std::uint32_t (&registers)[4]) {
  asm volatile(
      "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address),
      "r"(registers[0]), "r"(registers[1]), "r"(registers[2]), "r"(registers[3])
      : "memory");
}

}  // namespace attnd::cuda::ptx
