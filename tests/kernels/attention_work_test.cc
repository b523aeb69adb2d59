#include "kernels/attention_work.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/attention_mask.h"
#include "kernels/attention_shape.h"

namespace attnd {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

double CountedPairs(const AttentionParams& p) {
  double pairs = 0;
  for (std::int64_t row = 0; row < p.seqlen_q; ++row) {
    const KeyRange keys =
        VisibleKeys(row, p.seqlen_q, p.seqlen_k, p.causal, p.window_left, p.window_right);
    pairs += static_cast<double>(keys.end - keys.begin);
  }
  return pairs;
}

TEST(AttentionWorkTest, PairsAreThoseThatRowsSee) {
  for (std::int64_t seqlen_q : {0, 1, 5, 8}) {
    for (std::int64_t seqlen_k : {0, 1, 5, 9}) {
      for (bool causal : {false, true}) {
        for (std::int64_t left : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{3}, kHuge}) {
          for (std::int64_t right : {std::int64_t{-1}, std::int64_t{0}, std::int64_t{2}, kHuge}) {
            AttentionParams p;
            p.batch_size = 1;
            p.seqlen_q = seqlen_q;
            p.seqlen_k = seqlen_k;
            p.causal = causal;
            p.window_left = left;
            p.window_right = right;
            EXPECT_EQ(VisiblePairs(p), CountedPairs(p))
                << seqlen_q << " x " << seqlen_k << (causal ? " causal " : " ") << left << " "
                << right;
          }
        }
      }
    }
  }
}

TEST(AttentionWorkTest, SequencesCountWithTheirOwnLengths) {
  const std::vector<std::int32_t> cu_seqlens = {0, 10, 11, 11, 14};
  const std::vector<std::int32_t> lengths = {7, 1, 0, 2};
  AttentionParams p;
  p.batch_size = 4;
  p.num_heads = 3;
  p.head_dim = 8;
  p.head_dim_v = 4;
  p.seqlen_q = p.seqlen_k = 10;
  p.cu_seqlens_q = p.cu_seqlens_k = cu_seqlens.data();
  EXPECT_EQ(VisiblePairs(p), 100 + 1 + 9);
  EXPECT_EQ(VisibleFlops(p), 2.0 * 3 * 110 * (8 + 4));
  p.lengths_k = lengths.data();
  EXPECT_EQ(VisiblePairs(p), 10 * 7 + 1 + 3 * 2);
}

TEST(AttentionWorkTest, TheCostOfRowsWithoutKeysIsThatOfTheirOutput) {
  AttentionParams p;
  p.batch_size = 2;
  p.num_heads = p.num_kv_heads = 4;
  p.seqlen_q = 1000;
  p.head_dim = p.head_dim_v = 64;
  const double narrow = AttentionCost(p);
  EXPECT_GT(narrow, 2.0 * 4 * 1000 * 64 * 4);  // an operation a byte at the least
  p.head_dim_v = 256;
  const double wide = AttentionCost(p);
  EXPECT_GT(wide, 2 * narrow);
  p.out.dtype = DataType::kFloat16;
  EXPECT_LT(AttentionCost(p), wide);
  p.seqlen_q = 0;
  EXPECT_EQ(AttentionCost(p), 0);
}

TEST(AttentionWorkTest, TheCostOfLongRowsIsThatOfTheirProducts) {
  AttentionParams p;
  p.batch_size = p.num_heads = p.num_kv_heads = 1;
  p.seqlen_q = p.seqlen_k = 1000;
  p.head_dim = p.head_dim_v = 64;
  EXPECT_GE(AttentionCost(p), AttentionFlops(p));
  EXPECT_LT(AttentionCost(p), 1.05 * AttentionFlops(p));
}

}  // namespace
}  // namespace attnd
