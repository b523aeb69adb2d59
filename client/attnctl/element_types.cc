#include "client/attnctl/element_types.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace attnd::attnctl {
namespace {

float BFloat16ToFloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t FloatToBFloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  const std::uint32_t ties_to_even = bits >> 16 & 1;
  return static_cast<std::uint16_t>((bits + 0x7fff + ties_to_even) >> 16);
}

float Float16ToFloat(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const auto fraction = static_cast<float>(bits & 0x3ff);
  float value = 0.0f;
  if (exponent == 31) {
    value = fraction == 0.0f ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(fraction, -24);
  } else {
    value = std::ldexp(fraction + 1024.0f, exponent - 25);
  }
  return bits & 0x8000 ? -value : value;
}

std::uint16_t FloatToFloat16(float value) {
  const std::uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float size = std::abs(value);
  if (size == 0.0f) return sign;
  if (std::isnan(value)) return sign | 0x7e00;
  if (size >= 65520.0f) return sign | 0x7c00;  // half way past the largest, 65504
  int exponent = 0;
  std::frexp(size, &exponent);
  const int unit = std::max(exponent - 11, -24);  // of the last place
  const float scaled = std::ldexp(size, -unit);   // at most 2048, exact
  const auto rounded = static_cast<int>(std::nearbyint(scaled));
  // A normal number's leading 1 carries into the exponent, and so does rounding up to the next
  // power of 2.
  return static_cast<std::uint16_t>(sign | (((unit + 24) << 10) + rounded));
}

}  // namespace

absl::StatusOr<v1::DataType> DataTypeFromName(absl::string_view name) {
  if (name == "float32" || name == "fp32") return v1::DATA_TYPE_FLOAT32;
  if (name == "float16" || name == "fp16") return v1::DATA_TYPE_FLOAT16;
  if (name == "bfloat16" || name == "bf16") return v1::DATA_TYPE_BFLOAT16;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is not float32, float16 or bfloat16"));
}

std::string NameOf(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT32:
      return "float32";
    case v1::DATA_TYPE_FLOAT16:
      return "float16";
    case v1::DATA_TYPE_BFLOAT16:
      return "bfloat16";
    default:
      return absl::StrCat("type ", static_cast<int>(dtype));
  }
}

std::int64_t BytesOf(v1::DataType dtype) { return dtype == v1::DATA_TYPE_FLOAT32 ? 4 : 2; }

double RoundingUnit(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT16:
      return 0x1p-11;
    case v1::DATA_TYPE_BFLOAT16:
      return 0x1p-8;
    default:
      return 0x1p-24;
  }
}

float Round(v1::DataType dtype, float value) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT16:
      return Float16ToFloat(FloatToFloat16(value));
    case v1::DATA_TYPE_BFLOAT16:
      return BFloat16ToFloat(FloatToBFloat16(value));
    default:
      return value;
  }
}

std::vector<float> Widen(v1::DataType dtype, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / BytesOf(dtype));
  if (dtype == v1::DATA_TYPE_FLOAT32) {
    std::ranges::copy(bytes.first(values.size() * sizeof(float)),
                      std::as_writable_bytes(std::span(values)).begin());
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + 2 * i, sizeof(bits));
    values[i] = dtype == v1::DATA_TYPE_FLOAT16 ? Float16ToFloat(bits) : BFloat16ToFloat(bits);
  }
  return values;
}

std::vector<std::byte> Narrow(v1::DataType dtype, std::span<const float> values) {
  std::vector<std::byte> bytes(values.size() * BytesOf(dtype));
  if (dtype == v1::DATA_TYPE_FLOAT32) {
    std::ranges::copy(std::as_bytes(values), bytes.begin());
    return bytes;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits =
        dtype == v1::DATA_TYPE_FLOAT16 ? FloatToFloat16(values[i]) : FloatToBFloat16(values[i]);
    std::memcpy(bytes.data() + 2 * i, &bits, sizeof(bits));
  }
  return bytes;
}

}  // namespace attnd::attnctl
