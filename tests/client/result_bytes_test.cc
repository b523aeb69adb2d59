#include "client/cpp/result_bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>

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

v1::AttentionSpec PackedSpec(std::initializer_list<std::int64_t> cu_seqlens_q,
                             std::initializer_list<std::int64_t> cu_seqlens_k) {
  v1::AttentionSpec spec = Spec();
  spec.set_seqlen_q(0);
  spec.set_seqlen_k(0);
  for (const std::int64_t begin : cu_seqlens_q) spec.add_cu_seqlens_q(begin);
  for (const std::int64_t begin : cu_seqlens_k) spec.add_cu_seqlens_k(begin);
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
  v1::AttentionSpec spec = PackedSpec({0, 4, 5}, {0, 2, 8});
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

TEST(ResultBytesTest, SequencesThatEndBeforeTheyBeginHaveNoSize) {
  EXPECT_TRUE(ResultBytesOf(PackedSpec({0, 4, 5}, {0, 2, 8})).has_value());
  EXPECT_FALSE(ResultBytesOf(PackedSpec({0, 6, 5}, {0, 2, 8})).has_value());
  EXPECT_FALSE(ResultBytesOf(PackedSpec({0, 4, 5}, {0, 9, 8})).has_value());
}

TEST(ResultBytesTest, SequencesOfMoreThan63BitsHaveNoSize) {
  EXPECT_FALSE(ResultBytesOf(PackedSpec({INT64_MIN, INT64_MAX, 5}, {0, 2, 8})).has_value());
  EXPECT_FALSE(ResultBytesOf(PackedSpec({0, 4, 5}, {INT64_MIN, 1, 8})).has_value());
  EXPECT_FALSE(ResultBytesOf(PackedSpec({0, 4, 5}, {0, INT64_MAX, INT64_MIN})).has_value());
}

TEST(ResultBytesTest, TensorsOfMoreThan63BitsTogetherHaveNoSize) {
  v1::AttentionSpec spec = Spec();
  spec.set_batch_size(1);
  spec.set_seqlen_q(INT64_MAX / (3 * 8 * 2));
  spec.set_seqlen_k(0);
  EXPECT_TRUE(ResultBytesOf(spec).has_value());
  spec.set_return_lse(true);
  EXPECT_FALSE(ResultBytesOf(spec).has_value());
  MergeInputs inputs{.num_parts = 1, .rows = INT64_MAX / 32, .head_dim_v = 8};
  EXPECT_FALSE(ResultBytesOf(inputs).has_value());
  inputs.rows /= 2;
  EXPECT_TRUE(ResultBytesOf(inputs).has_value());
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
