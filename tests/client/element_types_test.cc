#include "client/attnctl/element_types.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

namespace attnd::attnctl {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::uint16_t Bits(v1::DataType dtype, float value) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, Narrow(dtype, std::span(&value, 1)).data(), sizeof(bits));
  return bits;
}

TEST(ElementTypesTest, Float16HasTheBitsOfTheStandard) {
  const auto bits = [](float value) { return Bits(v1::DATA_TYPE_FLOAT16, value); };
  EXPECT_EQ(bits(0.0f), 0x0000);
  EXPECT_EQ(bits(-0.0f), 0x8000);
  EXPECT_EQ(bits(1.0f), 0x3c00);
  EXPECT_EQ(bits(-2.0f), 0xc000);
  EXPECT_EQ(bits(65504.0f), 0x7bff);
  EXPECT_EQ(bits(65519.99f), 0x7bff);
  EXPECT_EQ(bits(65520.0f), 0x7c00);
  EXPECT_EQ(bits(-kInfinity), 0xfc00);
  EXPECT_EQ(bits(0x1p-24f), 0x0001);
  EXPECT_EQ(bits(0x1p-25f), 0x0000);          // a tie, to even
  EXPECT_EQ(bits(0x1.8p-24f), 0x0002);        // a tie, to even
  EXPECT_EQ(bits(0x1p-14f), 0x0400);          // the smallest normal number
  EXPECT_EQ(bits(0x1.ffcp-15f), 0x03ff + 1);  // rounds up to it
  EXPECT_EQ(bits(1.0f + 0x1p-11f), 0x3c00);   // a tie, to even
  EXPECT_EQ(bits(1.0f + 0x1.8p-10f), 0x3c02);
}

TEST(ElementTypesTest, BFloat16RoundsToNearestEven) {
  const auto bits = [](float value) { return Bits(v1::DATA_TYPE_BFLOAT16, value); };
  EXPECT_EQ(bits(1.0f), 0x3f80);
  EXPECT_EQ(bits(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(bits(1.0f + 0x1.8p-7f), 0x3f82);
  EXPECT_EQ(bits(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(bits(-kInfinity), 0xff80);
}

TEST(ElementTypesTest, EverySixteenBitPatternSurvivesWideningAndNarrowing) {
  for (const v1::DataType dtype : {v1::DATA_TYPE_FLOAT16, v1::DATA_TYPE_BFLOAT16}) {
    for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
      const auto bits = static_cast<std::uint16_t>(pattern);
      const float value = Widen(dtype, std::as_bytes(std::span(&bits, 1)))[0];
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(Round(dtype, value))) << pattern;
      } else {
        ASSERT_EQ(Bits(dtype, value), bits) << pattern;
      }
    }
  }
}

TEST(ElementTypesTest, NamesReadBack) {
  for (const char* const name : {"float32", "float16", "bfloat16"}) {
    const auto dtype = DataTypeFromName(name);
    ASSERT_TRUE(dtype.ok());
    EXPECT_EQ(NameOf(*dtype), name);
  }
  EXPECT_EQ(DataTypeFromName("int8").status().message(),
            "\"int8\" is not float32, float16 or bfloat16");
}

}  // namespace
}  // namespace attnd::attnctl
