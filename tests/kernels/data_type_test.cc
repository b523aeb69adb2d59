#include "kernels/data_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace attnd {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value of a binary16, by definition of its fields.
double Float16Value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(DataTypeTest, EveryFloat16WidensToItsValueAndBack) {
  for (int i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = Float16ToFloat(bits);
    if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff) != 0) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(Float16ToFloat(FloatToFloat16(value)))) << bits;
      continue;
    }
    if ((bits & 0x7c00) == 0x7c00) {
      ASSERT_EQ(value, bits & 0x8000 ? -kInfinity : kInfinity);
    } else {
      ASSERT_EQ(value, Float16Value(bits)) << bits;
    }
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    ASSERT_EQ(FloatToFloat16(value), bits);
  }
}

TEST(DataTypeTest, EveryBFloat16WidensToItsUpperHalfAndBack) {
  for (int i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = BFloat16ToFloat(bits);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(value), static_cast<std::uint32_t>(i) << 16);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(value)))) << bits;
    } else {
      ASSERT_EQ(FloatToBFloat16(value), bits);
    }
  }
}

// Half-way between two neighbours goes to the even one, and anything past it to the nearer one.
TEST(DataTypeTest, NarrowingRoundsToNearestTiesToEven) {
  for (std::uint16_t bits :
       {std::uint16_t{0}, std::uint16_t{1}, std::uint16_t{0x3ff}, std::uint16_t{0x400},
        std::uint16_t{0x3c00}, std::uint16_t{0x3c01}, std::uint16_t{0x7bfe}}) {
    const std::uint16_t next = bits + 1;
    const float half_way = (Float16ToFloat(bits) + Float16ToFloat(next)) / 2;
    EXPECT_EQ(FloatToFloat16(half_way), bits % 2 == 0 ? bits : next);
    EXPECT_EQ(FloatToFloat16(std::nextafter(half_way, -kInfinity)), bits);
    EXPECT_EQ(FloatToFloat16(std::nextafter(half_way, kInfinity)), next);
    EXPECT_EQ(FloatToFloat16(-half_way), (bits % 2 == 0 ? bits : next) | 0x8000);
  }
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1p-8f), FloatToBFloat16(1.0f));
  EXPECT_EQ(FloatToBFloat16(1.0f + 0x1.8p-7f), FloatToBFloat16(1.0f + 0x1p-6f));
}

TEST(DataTypeTest, NarrowingOverflowsToInfinity) {
  EXPECT_EQ(FloatToFloat16(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToFloat16(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToFloat16(-1e30f), 0xfc00);
  EXPECT_EQ(FloatToBFloat16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(DataTypeTest, NanNeverNarrowsToInfinity) {
  const float low_payload = std::bit_cast<float>(0x7f800001u);
  EXPECT_TRUE(std::isnan(Float16ToFloat(FloatToFloat16(low_payload))));
  EXPECT_TRUE(std::isnan(BFloat16ToFloat(FloatToBFloat16(low_payload))));
}

TEST(DataTypeTest, ElementsAreLoadedAndStoredByIndex) {
  for (DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    float memory[3] = {};
    StoreElement(memory, dtype, 2, -1.5f);
    EXPECT_EQ(LoadElement(memory, dtype, 2), -1.5f);
    EXPECT_EQ(LoadElement(memory, dtype, 1), 0.0f);
    EXPECT_EQ(LoadElement(static_cast<const char*>(static_cast<void*>(memory)) + 2 * SizeOf(dtype),
                          dtype, 0),
              -1.5f);
  }
}

}  // namespace
}  // namespace attnd
