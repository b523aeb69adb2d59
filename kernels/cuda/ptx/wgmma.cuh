// wgmma: the warpgroup's asynchronous matrix multiply. D += A B with A 64 x 16 and B 16 x N, D in
// float32 registers. PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
//
// Lane l of warp w of the warpgroup holds, for every 8 columns of D, four values: columns 2 (l % 4)
// and one more of row 16 w + l / 4, then the same two of the row 8 below.
#pragma once

#include <cstdint>

#include "kernels/data_type.h"

namespace attnd::cuda::ptx {

// Makes this warpgroup's register and shared-memory writes so far visible to the wgmmas that
// follow.
__device__ __forceinline__ void WgmmaFence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// Closes the group of wgmmas issued since the last commit.
__device__ __forceinline__ void WgmmaCommit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most `kPending` of the groups committed last are still running.
template <int kPending>
__device__ __forceinline__ void WgmmaWait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Waits like WgmmaWait, but not before the non-negative `value` is known. ptxas moves a bare wait
// as far up as it can, and with it the end of all overlap. It keeps the order of waits and stores,
// so a store that depends on `value`, and that is never done, holds the wait in its place.
template <int kPending>
__device__ __forceinline__ void WgmmaWaitAfter(float value, std::uint32_t any_shared_address) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.lt.f32 p, %0, 0f00000000;\n@p st.shared.f32 [%1], %0;\n}\n" ::"f"(
          value),
      "r"(any_shared_address)
      : "memory");
  WgmmaWait<kPending>();
}

// Keeps the compiler from moving uses of `registers` across this point: wgmma writes them while
// other code runs, which the compiler cannot see.
template <int kCount>
__device__ __forceinline__ void PinRegisters(float (&registers)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(registers[i])::"memory");
}

// The description of an operand tile in shared memory that wgmma takes. Swizzle spans: 128 or 64
// bytes, one row of a tile's column chunk. `kLeadingBytes` separates column chunks where the
// instruction crosses them, `kStrideBytes` groups of 8 rows.
template <int kSwizzleBytes, int kLeadingBytes, int kStrideBytes>
class MatrixDescriptor {
 public:
  // The empty asm hides the address from the compiler: it would otherwise compute the descriptors
  // of all products ahead, and spill them.
  __device__ __forceinline__ explicit MatrixDescriptor(std::uint32_t shared_address)
      : low_(static_cast<std::uint32_t>(kLeadingBytes >> 4) << 16 |
             (shared_address & 0x3FFFF) >> 4) {
    asm volatile("" : "+r"(low_));
  }

  // The tile `offset_bytes` further on.
  __device__ __forceinline__ std::uint64_t At(int offset_bytes) const {
    constexpr std::uint64_t kLayout = kSwizzleBytes == 128 ? 1 : 2;
    constexpr std::uint64_t kHigh = kLayout << 30 | kStrideBytes >> 4;
    return kHigh << 32 | (low_ + (offset_bytes >> 4));
  }

 private:
  static_assert(kSwizzleBytes == 128 || kSwizzleBytes == 64);
  std::uint32_t low_;
};

// D (and A, where it lies in registers) as asm operands, in groups of 8 registers (16 columns).
#define ATTND_D(c, b) \
  c(d[b]), c(d[b + 1]), c(d[b + 2]), c(d[b + 3]), c(d[b + 4]), c(d[b + 5]), c(d[b + 6]), c(d[b + 7])
#define ATTND_REGISTERS_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define ATTND_REGISTERS_32 \
  ATTND_REGISTERS_16       \
  ", "                     \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define ATTND_REGISTERS_48 \
  ATTND_REGISTERS_32       \
  ", "                     \
  "%16, %17, %18, %19, %20, %21, %22, %23"
#define ATTND_REGISTERS_64 \
  ATTND_REGISTERS_48       \
  ", "                     \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define ATTND_REGISTERS_80 \
  ATTND_REGISTERS_64       \
  ", "                     \
  "%32, %33, %34, %35, %36, %37, %38, %39"
#define ATTND_REGISTERS_96 \
  ATTND_REGISTERS_80       \
  ", "                     \
  "%40, %41, %42, %43, %44, %45, %46, %47"
#define ATTND_REGISTERS_112 \
  ATTND_REGISTERS_96        \
  ", "                      \
  "%48, %49, %50, %51, %52, %53, %54, %55"
#define ATTND_REGISTERS_128 \
  ATTND_REGISTERS_112       \
  ", "                      \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define ATTND_REGISTERS_144 \
  ATTND_REGISTERS_128       \
  ", "                      \
  "%64, %65, %66, %67, %68, %69, %70, %71"
#define ATTND_REGISTERS_160 \
  ATTND_REGISTERS_144       \
  ", "                      \
  "%72, %73, %74, %75, %76, %77, %78, %79"
#define ATTND_REGISTERS_176 \
  ATTND_REGISTERS_160       \
  ", "                      \
  "%80, %81, %82, %83, %84, %85, %86, %87"
#define ATTND_REGISTERS_192 \
  ATTND_REGISTERS_176       \
  ", "                      \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define ATTND_REGISTERS_208 \
  ATTND_REGISTERS_192       \
  ", "                      \
  "%96, %97, %98, %99, %100, %101, %102, %103"
#define ATTND_REGISTERS_224 \
  ATTND_REGISTERS_208       \
  ", "                      \
  "%104, %105, %106, %107, %108, %109, %110, %111"
#define ATTND_REGISTERS_240 \
  ATTND_REGISTERS_224       \
  ", "                      \
  "%112, %113, %114, %115, %116, %117, %118, %119"
#define ATTND_REGISTERS_256 \
  ATTND_REGISTERS_240       \
  ", "                      \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define ATTND_OPERANDS_16(c) ATTND_D(c, 0)
#define ATTND_OPERANDS_32(c) ATTND_OPERANDS_16(c), ATTND_D(c, 8)
#define ATTND_OPERANDS_48(c) ATTND_OPERANDS_32(c), ATTND_D(c, 16)
#define ATTND_OPERANDS_64(c) ATTND_OPERANDS_48(c), ATTND_D(c, 24)
#define ATTND_OPERANDS_80(c) ATTND_OPERANDS_64(c), ATTND_D(c, 32)
#define ATTND_OPERANDS_96(c) ATTND_OPERANDS_80(c), ATTND_D(c, 40)
#define ATTND_OPERANDS_112(c) ATTND_OPERANDS_96(c), ATTND_D(c, 48)
#define ATTND_OPERANDS_128(c) ATTND_OPERANDS_112(c), ATTND_D(c, 56)
#define ATTND_OPERANDS_144(c) ATTND_OPERANDS_128(c), ATTND_D(c, 64)
#define ATTND_OPERANDS_160(c) ATTND_OPERANDS_144(c), ATTND_D(c, 72)
#define ATTND_OPERANDS_176(c) ATTND_OPERANDS_160(c), ATTND_D(c, 80)
#define ATTND_OPERANDS_192(c) ATTND_OPERANDS_176(c), ATTND_D(c, 88)
#define ATTND_OPERANDS_208(c) ATTND_OPERANDS_192(c), ATTND_D(c, 96)
#define ATTND_OPERANDS_224(c) ATTND_OPERANDS_208(c), ATTND_D(c, 104)
#define ATTND_OPERANDS_240(c) ATTND_OPERANDS_224(c), ATTND_D(c, 112)
#define ATTND_OPERANDS_256(c) ATTND_OPERANDS_240(c), ATTND_D(c, 120)

// One instruction with A and B in shared memory, both with the reduced dimension contiguous
// (K-major). ADD: "1" adds to D, "0" starts it without reading it.
#define ATTND_WGMMA_SS(N, TYPE, A, B, CONSTRAINT, ADD)                               \
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, " ADD                               \
               ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE \
               " {" ATTND_REGISTERS_##N "}, " A ", " B ", p, 1, 1, 0, 0;\n}\n"       \
               : ATTND_OPERANDS_##N(CONSTRAINT)                                      \
               : "l"(a), "l"(b))

// One instruction with A in registers and B in shared memory with the output dimension contiguous
// (MN-major).
#define ATTND_WGMMA_RS(N, TYPE, A, B)                                                          \
  asm volatile(                                                                                \
      "{\n.reg .pred p;\nsetp.ne.b32 p, 1, 0;\n"                                               \
      "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " {" ATTND_REGISTERS_##N \
      "}, {" A "}, " B ", p, 1, 1, 1;\n}\n"                                                    \
      : ATTND_OPERANDS_##N("+f")                                                               \
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b))

#define ATTND_WGMMA_SS_CASE(N, A, B)              \
  if constexpr (kN == N && kAccumulate) {         \
    if constexpr (kDtype == DataType::kBFloat16)  \
      ATTND_WGMMA_SS(N, "bf16", A, B, "+f", "1"); \
    else                                          \
      ATTND_WGMMA_SS(N, "f16", A, B, "+f", "1");  \
  } else if constexpr (kN == N) {                 \
    if constexpr (kDtype == DataType::kBFloat16)  \
      ATTND_WGMMA_SS(N, "bf16", A, B, "=f", "0"); \
    else                                          \
      ATTND_WGMMA_SS(N, "f16", A, B, "=f", "0");  \
  }
#define ATTND_WGMMA_RS_CASE(N, A, B)             \
  if constexpr (kN == N) {                       \
    if constexpr (kDtype == DataType::kBFloat16) \
      ATTND_WGMMA_RS(N, "bf16", A, B);           \
    else                                         \
      ATTND_WGMMA_RS(N, "f16", A, B);            \
  }

// Starts D = A B (kAccumulate false) or D += A B. `a`, `b`: descriptors of K-major tiles, A 64 x
// 16, B kN x 16.
template <DataType kDtype, int kN, bool kAccumulate>
__device__ __forceinline__ void WgmmaSharedShared(float (&d)[kN / 2], std::uint64_t a,
                                                  std::uint64_t b) {
  ATTND_WGMMA_SS_CASE(48, "%24", "%25")
  ATTND_WGMMA_SS_CASE(64, "%32", "%33")
  ATTND_WGMMA_SS_CASE(80, "%40", "%41")
  ATTND_WGMMA_SS_CASE(96, "%48", "%49")
  ATTND_WGMMA_SS_CASE(112, "%56", "%57")
  ATTND_WGMMA_SS_CASE(128, "%64", "%65")
  ATTND_WGMMA_SS_CASE(144, "%72", "%73")
  ATTND_WGMMA_SS_CASE(160, "%80", "%81")
  ATTND_WGMMA_SS_CASE(176, "%88", "%89")
  ATTND_WGMMA_SS_CASE(192, "%96", "%97")
}

// Starts D += A B. A 64 x 16: the four registers a lane holds are columns 2 (l % 4) and one more of
// its two rows, then the same 8 columns on: two neighbouring groups of 8 columns of an accumulator,
// rounded. `b`: descriptor of an MN-major tile, 16 x kN as stored row by row.
template <DataType kDtype, int kN>
__device__ __forceinline__ void WgmmaRegisterShared(float (&d)[kN / 2], std::uint32_t a0,
                                                    std::uint32_t a1, std::uint32_t a2,
                                                    std::uint32_t a3, std::uint64_t b) {
  ATTND_WGMMA_RS_CASE(64, "%32, %33, %34, %35", "%36")
  ATTND_WGMMA_RS_CASE(96, "%48, %49, %50, %51", "%52")
  ATTND_WGMMA_RS_CASE(128, "%64, %65, %66, %67", "%68")
  ATTND_WGMMA_RS_CASE(192, "%96, %97, %98, %99", "%100")
  ATTND_WGMMA_RS_CASE(256, "%128, %129, %130, %131", "%132")
}

#undef ATTND_WGMMA_SS
#undef ATTND_WGMMA_RS
#undef ATTND_WGMMA_SS_CASE
#undef ATTND_WGMMA_RS_CASE
}  // namespace attnd::cuda::ptx
