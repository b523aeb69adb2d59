// The element types that tensors may have, and conversions of single 16-bit values on the host.
#pragma once

#include <cstdint>
#include <string_view>

namespace attnd {

enum class DataType : std::uint8_t { kFloat32, kFloat16, kBFloat16 };

constexpr std::int64_t SizeOf(DataType dtype) { return dtype == DataType::kFloat32 ? 4 : 2; }

constexpr std::string_view NameOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32: return "float32";
    case DataType::kFloat16: return "float16";
    case DataType::kBFloat16: return "bfloat16";
  }
  return "unknown";
}

// IEEE 754 binary16 and bfloat16 to and from float32. Narrowing rounds to nearest, ties to even; NaN stays NaN.
float Float16ToFloat(std::uint16_t bits);
std::uint16_t FloatToFloat16(float value);
float BFloat16ToFloat(std::uint16_t bits);
std::uint16_t FloatToBFloat16(float value);

// Element `index` of a host array of `dtype`, widened to float32; and its inverse.
float LoadElement(const void* data, DataType dtype, std::int64_t index);
void StoreElement(void* data, DataType dtype, std::int64_t index, float value);

}  // namespace attnd
