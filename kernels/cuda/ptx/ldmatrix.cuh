// ldmatrix: a warp loads four 8x8 matrices of 16-bit elements from shared memory into mma fragments
// (sm_75 and newer).
#pragma once

#include <cstdint>

namespace attnd::cuda::ptx {

// Lane 8i + r gives the address of row r (16 bytes, aligned) of matrix i; register i then holds two
// adjacent elements of row lane / 4 of matrix i, at columns 2 (lane % 4) and the next.
__device__ __forceinline__ void LoadMatrixX4(std::uint32_t (&registers)[4],
                                             std::uint32_t row_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(row_address)
               : "memory");
}

// The same with each matrix transposed: register i holds rows 2 (lane % 4) and the next of column
// lane / 4.
__device__ __forceinline__ void LoadMatrixX4Transposed(std::uint32_t (&registers)[4],
                                                       std::uint32_t row_address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(row_address)
               : "memory");
}

}  // namespace attnd::cuda::ptx
