#include "kernels/data_type.h"

#include <bit>

namespace attnd {
namespace {

constexpr std::uint32_t kMagnitudeMask = 0x7fffffff;
constexpr std::uint32_t kFloatInfinity = 0x7f800000;
constexpr int kHalfExponentShift = 13;  // mantissa bits that binary16 lacks
constexpr std::uint32_t kExponentRebias = (127 - 15)
                                          << 23;  // from binary16's exponent bias to binary32's

}  // namespace

std::uint16_t FloatToFloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint16_t sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & kMagnitudeMask;
  if (magnitude > kFloatInfinity) return sign | 0x7e00;
  constexpr std::uint32_t kTwoTo16 = 0x47800000;
  if (magnitude >= kTwoTo16) return sign | 0x7c00;
  constexpr std::uint32_t kSmallestNormal = 0x38800000;  // 2^-14
  if (magnitude < kSmallestNormal) {
    // The last place of 0.5f is 2^-24, that of a subnormal binary16: the addition rounds to it.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(shifted) -
                                             std::bit_cast<std::uint32_t>(0.5f));
  }
  const std::uint32_t odd = magnitude >> kHalfExponentShift & 1;
  const std::uint32_t rounded = magnitude - kExponentRebias + 0xfff + odd;
  return sign | static_cast<std::uint16_t>(rounded >> kHalfExponentShift);
}

std::uint16_t FloatToBFloat16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & kMagnitudeMask) > kFloatInfinity) {
    return static_cast<std::uint16_t>(bits >> 16 |
                                      0x40);  // quiet, so that no NaN is cut down to infinity
  }
  const std::uint32_t odd = bits >> 16 & 1;
  return static_cast<std::uint16_t>((bits + 0x7fff + odd) >> 16);
}

void StoreElement(void* data, DataType dtype, std::int64_t index, float value) {
  switch (dtype) {
    case DataType::kFloat32:
      static_cast<float*>(data)[index] = value;
      return;
    case DataType::kFloat16:
      static_cast<std::uint16_t*>(data)[index] = FloatToFloat16(value);
      return;
    case DataType::kBFloat16:
      static_cast<std::uint16_t*>(data)[index] = FloatToBFloat16(value);
      return;
  }
}

}  // namespace attnd
