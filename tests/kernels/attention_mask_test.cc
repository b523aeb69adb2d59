#include "kernels/attention_mask.h"

#include <gtest/gtest.h>

#include <limits>

namespace attnd {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

// The rule as AttentionParams states it, for one key.
bool MaySee(std::int64_t row, std::int64_t j, std::int64_t seqlen_q, std::int64_t seqlen_k,
            bool causal, std::int64_t window_left, std::int64_t window_right) {
  const std::int64_t distance = j - (row + seqlen_k - seqlen_q);
  if (causal && distance > 0) return false;
  if (window_left >= 0 && -distance > window_left) return false;
  return window_right < 0 || distance <= window_right;
}

TEST(AttentionMaskTest, RangeHoldsExactlyTheKeysThatTheRuleAllows) {
  for (std::int64_t q : {1, 2, 5, 8}) {
    for (std::int64_t k : {0, 1, 3, 5, 9}) {
      for (std::int64_t left : {-1, 0, 1, 3, 20}) {
        for (std::int64_t right : {-1, 0, 1, 3, 20}) {
          for (bool causal : {false, true}) {
            for (std::int64_t row = 0; row < q; ++row) {
              const KeyRange keys = VisibleKeys(row, q, k, causal, left, right);
              ASSERT_LE(0, keys.begin);
              ASSERT_LE(keys.begin, keys.end);
              ASSERT_LE(keys.end, k);
              for (std::int64_t j = 0; j < k; ++j) {
                ASSERT_EQ(j >= keys.begin && j < keys.end,
                          MaySee(row, j, q, k, causal, left, right))
                    << "row " << row << " of " << q << ", key " << j << " of " << k << ", causal "
                    << causal << ", window " << left << ", " << right;
              }
            }
          }
        }
      }
    }
  }
}

TEST(AttentionMaskTest, CausalIsAlignedToTheBottomRightCorner) {
  EXPECT_EQ(VisibleKeys(0, 2, 5, true, -1, -1).end, 4);
  EXPECT_EQ(VisibleKeys(1, 2, 5, true, -1, -1).end, 5);
}

TEST(AttentionMaskTest, FirstRowsSeeNothingWhereQueriesOutnumberKeys) {
  const KeyRange nothing = VisibleKeys(2, 5, 2, true, -1, -1);
  EXPECT_EQ(nothing.begin, nothing.end);
  EXPECT_EQ(VisibleKeys(3, 5, 2, true, -1, -1).end, 1);
}

TEST(AttentionMaskTest, LargestWindowIsOpen) {
  for (std::int64_t row : {0, 3, 6}) {
    const KeyRange keys = VisibleKeys(row, 7, 4, false, kHuge, kHuge);
    EXPECT_EQ(keys.begin, 0);
    EXPECT_EQ(keys.end, 4);
  }
}

TEST(AttentionMaskTest, LongestSequencesDoNotOverflow) {
  constexpr std::int64_t kLong = std::int64_t{1} << 58;
  const KeyRange keys = VisibleKeys(kLong - 1, kLong, kLong, true, kHuge, -1);
  EXPECT_EQ(keys.begin, 0);
  EXPECT_EQ(keys.end, kLong);
}

}  // namespace
}  // namespace attnd
