// mma.sync.m16n8k16: one warp multiplies a 16x16 by a 16x8 matrix of 16-bit elements, accumulating
// in float32 (sm_80 and newer). Fragments as in the PTX manual: of the accumulator a lane holds
// rows lane / 4 (elements 0, 1) and lane / 4 + 8 (elements 2, 3), at columns 2 (lane % 4) and the
// next.
#pragma once

#include <cstdint>

#include "kernels/data_type.h"

namespace attnd::cuda::ptx {

// accumulator += a b. Only float16 and bfloat16.
template <DataType kDtype>
__device__ __forceinline__ void MmaM16N8K16(float (&accumulator)[4], const std::uint32_t (&a)[4],
                                            std::uint32_t b0, std::uint32_t b1) {
  static_assert(kDtype != DataType::kFloat32);
  if constexpr (kDtype == DataType::kFloat16) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(accumulator[0]), "+f"(accumulator[1]), "+f"(accumulator[2]), "+f"(accumulator[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(accumulator[0]), "+f"(accumulator[1]), "+f"(accumulator[2]), "+f"(accumulator[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}

}  // namespace attnd::cuda::ptx
