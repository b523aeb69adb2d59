#include "client/cpp/result_bytes.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace attnd::internal {
namespace {

v1::AttentionSpec Spec() {
  v1::AttentionSpec spec;
  spec.set_batch_size(2);
  spec.set_seqlen_q(5);
  spec.set_seqlen_k(7);
  spec.set_num_heads(3);
  spec.set_head_dim(8);
  spec.set_dtype(v1::DATA_TYPE_FLOAT16);
  return spec;
}

TEST(ResultBytesTest, OutHasTheTypeOfTheInputsUnlessAskedOtherwise) {
  v1::AttentionSpec spec = Spec();
  EXPECT_EQ(ResultBytesOf(spec)->out, 2 * 5 * 3 * 8 * 2);
  spec.set_out_dtype(v1::DATA_TYPE_FLOAT32);
  EXPECT_EQ(ResultBytesOf(spec)->out, 2 * 5 * 3 * 8 * 4);
  spec.set_out_dtype(v1::DATA_TYPE_FLOAT16);
  spec.set_return_partial(true);
  EXPECT_EQ(ResultBytesOf(spec)->out, 2 * 5 * 3 * 8 * 4);
}

TEST(ResultBytesTest, OutHasTheWidthOfV) {
  v1::AttentionSpec spec = Spec();
  spec.set_head_dim_v(16);
  EXPECT_EQ(ResultBytesOf(spec)->out, 2 * 5 * 3 * 16 * 2);
}

TEST(ResultBytesTest, LseAndProbsOnlyWhenAskedFor) {
  v1::AttentionSpec spec = Spec();
  EXPECT_EQ(ResultBytesOf(spec)->lse, 0);
  EXPECT_EQ(ResultBytesOf(spec)->probs, 0);
  spec.set_return_partial(true);
  spec.set_return_probs(true);
  EXPECT_EQ(ResultBytesOf(spec)->lse, 2 * 3 * 5 * 4);
  EXPECT_EQ(ResultBytesOf(spec)->probs, 2 * 3 * 5 * 7 * 4);
}

TEST(ResultBytesTest, PackedSequencesCountTheirRows) {
  v1::AttentionSpec spec = Spec();
  spec.set_seqlen_q(0);
  spec.set_seqlen_k(0);
  for (const std::int64_t begin : {0, 4, 5}) spec.add_cu_seqlens_q(begin);
  for (const std::int64_t begin : {0, 2, 8}) spec.add_cu_seqlens_k(begin);
  spec.set_return_lse(true);
  spec.set_return_probs(true);
  const auto bytes = ResultBytesOf(spec);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(bytes->out, 5 * 3 * 8 * 2);
  EXPECT_EQ(bytes->lse, 3 * 5 * 4);
  EXPECT_EQ(bytes->probs, 2 * 3 * 4 * 6 * 4);
}

TEST(ResultBytesTest, UnsoundSpecsHaveNoSize) {
  v1::AttentionSpec spec = Spec();
  spec.set_dtype(v1::DATA_TYPE_UNSPECIFIED);
  EXPECT_FALSE(ResultBytesOf(spec).has_value());
  spec = Spec();
  spec.set_seqlen_q(-1);
  EXPECT_FALSE(ResultBytesOf(spec).has_value());
  spec = Spec();
  spec.set_num_heads(INT64_MAX / 4);
  EXPECT_FALSE(ResultBytesOf(spec).has_value());
  spec = Spec();
  spec.add_cu_seqlens_q(0);
  spec.add_cu_seqlens_q(-5);
  EXPECT_FALSE(ResultBytesOf(spec).has_value());
}

TEST(ResultBytesTest, MergedPartsHaveOnePartsSize) {
  const MergeInputs inputs{
      .num_parts = 9, .rows = 6, .head_dim_v = 8, .out_dtype = v1::DATA_TYPE_BFLOAT16};
  const auto bytes = ResultBytesOf(inputs);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(bytes->out, 6 * 8 * 2);
  EXPECT_EQ(bytes->lse, 6 * 4);
}

}  // namespace
}  // namespace attnd::internal
