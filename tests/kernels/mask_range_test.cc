#include "kernels/cpu/mask_range.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace attnd::cpu {
namespace {

// What is left of keys [begin, end) of 64, of which `allowed` may be seen.
std::pair<std::int64_t, std::int64_t> Left(std::int64_t begin, std::int64_t end,
                                           const std::vector<int>& allowed) {
  std::vector<std::uint8_t> row(64, 0);
  for (int key : allowed) row[key] = 255;
  const KeyRange left = AllowedPart(row.data(), {begin, end});
  return {left.begin, left.end};
}

using Range = std::pair<std::int64_t, std::int64_t>;

TEST(AllowedPartTest, ReachesFromTheFirstAllowedKeyToTheLast) {
  EXPECT_EQ(Left(0, 64, {3, 60}), Range(3, 61));
  EXPECT_EQ(Left(0, 64, {0, 63}), Range(0, 64));
  EXPECT_EQ(Left(0, 64, {31}), Range(31, 32));
  EXPECT_EQ(Left(5, 50, {7, 9, 40}), Range(7, 41));
}

TEST(AllowedPartTest, LooksAtNoKeyOutsideTheRange) {
  EXPECT_EQ(Left(10, 20, {9, 20}), Range(0, 0));
  EXPECT_EQ(Left(10, 20, {9, 10, 19, 20}), Range(10, 20));
  EXPECT_EQ(Left(10, 13, {9, 11, 13}), Range(11, 12));
}

TEST(AllowedPartTest, IsEmptyWhereAllIsForbidden) {
  EXPECT_EQ(Left(0, 64, {}), Range(0, 0));
  EXPECT_EQ(Left(3, 3, {3}), Range(0, 0));
}

}  // namespace
}  // namespace attnd::cpu
