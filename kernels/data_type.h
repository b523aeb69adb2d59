// The element types that tensors may have, and conversions of single values.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "kernels/host_device.h"

namespace attnd {

enum class DataType : std::uint8_t { kFloat32, kFloat16, kBFloat16 };

constexpr std::int64_t SizeOf(DataType dtype) { return dtype == DataType::kFloat32 ? 4 : 2; }

constexpr std::string_view NameOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat16:
      return "float16";
    case DataType::kBFloat16:
      return "bfloat16";
  }
  return "unknown";
}

// IEEE 754 binary16 and bfloat16 to float32: exact, for host and device.
ATTND_HOST_DEVICE float FloatFromBits(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

ATTND_HOST_DEVICE float BFloat16ToFloat(std::uint16_t bits) {
  return FloatFromBits(static_cast<std::uint32_t>(bits) << 16);
}

ATTND_HOST_DEVICE float Float16ToFloat(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fff) << 13;
  const std::uint32_t exponent = bits & 0x7c00;
  if (exponent == 0x7c00)
    return FloatFromBits(sign | (magnitude + ((255u - 31u) << 23)));  // infinity, NaN
  if (exponent != 0) return FloatFromBits(sign | (magnitude + ((127u - 15u) << 23)));
  // Subnormal: give it the exponent of 2^-14 and take 2^-14 away again; no float32 subnormal is
  // touched.
  const float two_to_minus_14 = FloatFromBits(113u << 23);
  const float value = FloatFromBits(magnitude + (113u << 23)) - two_to_minus_14;
  return sign ? -value : value;
}

// Element `index` of an array of `dtype`, widened to float32.
ATTND_HOST_DEVICE float LoadElement(const void* data, DataType dtype, std::int64_t index) {
  switch (dtype) {
    case DataType::kFloat32:
      return static_cast<const float*>(data)[index];
    case DataType::kFloat16:
      return Float16ToFloat(static_cast<const std::uint16_t*>(data)[index]);
    case DataType::kBFloat16:
      return BFloat16ToFloat(static_cast<const std::uint16_t*>(data)[index]);
  }
  return 0.0f;
}

// The inverses, on the host. Narrowing rounds to nearest, ties to even; NaN stays NaN.
std::uint16_t FloatToFloat16(float value);
std::uint16_t FloatToBFloat16(float value);
void StoreElement(void* data, DataType dtype, std::int64_t index, float value);

}  // namespace attnd
