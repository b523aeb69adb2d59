// The element types of tensors on the device, and their conversion to and from float32. Plain PTX
// instead of cuda_fp16.h and cuda_bf16.h, which cost every translation unit about a second.
#pragma once

#include <cstdint>

#include "kernels/data_type.h"

namespace attnd::cuda {

template <DataType kDtype>
struct Element {
  static_assert(kDtype != DataType::kFloat32);
  using Storage = std::uint16_t;

  static __device__ __forceinline__ float ToFloat(Storage bits) {
    if constexpr (kDtype == DataType::kBFloat16) {
      return __uint_as_float(static_cast<std::uint32_t>(bits) << 16);
    } else {
      float value;
      asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
      return value;
    }
  }

  static __device__ __forceinline__ Storage FromFloat(float value) {
    Storage bits;
    if constexpr (kDtype == DataType::kBFloat16) {
      asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    } else {
      asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    }
    return bits;
  }

  // Two rounded elements in one register, `low` at the lower address.
  static __device__ __forceinline__ std::uint32_t Pack(float low, float high) {
    std::uint32_t packed;
    if constexpr (kDtype == DataType::kBFloat16) {
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    } else {
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
    }
    return packed;
  }
};

template <>
struct Element<DataType::kFloat32> {
  using Storage = float;
  static __device__ __forceinline__ float ToFloat(Storage value) { return value; }
  static __device__ __forceinline__ Storage FromFloat(float value) { return value; }
};

// Element `index` of an array whose type is known at run time only, such as a bias.
__device__ __forceinline__ float LoadAsFloat(const void* data, DataType dtype, std::int64_t index) {
  if (dtype == DataType::kFloat32) return static_cast<const float*>(data)[index];
  const std::uint16_t bits = static_cast<const std::uint16_t*>(data)[index];
  return dtype == DataType::kFloat16 ? Element<DataType::kFloat16>::ToFloat(bits)
                                     : Element<DataType::kBFloat16>::ToFloat(bits);
}

__device__ __forceinline__ void StoreFromFloat(void* data, DataType dtype, std::int64_t index,
                                               float value) {
  if (dtype == DataType::kFloat32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<std::uint16_t*>(data)[index] = dtype == DataType::kFloat16
                                                   ? Element<DataType::kFloat16>::FromFloat(value)
                                                   : Element<DataType::kBFloat16>::FromFloat(value);
  }
}

}  // namespace attnd::cuda
