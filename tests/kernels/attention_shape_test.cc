#include "kernels/attention_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "tests/testing/problem.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

AttentionParams Sound(const std::function<void(testing::ProblemSpec&)>& describe = [](auto&) {}) {
  testing::ProblemSpec spec;
  spec.batch_size = 2;
  spec.seqlen_q = 3;
  spec.seqlen_k = 5;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.head_dim = 64;
  spec.head_dim_v = 32;
  spec.dtype = DataType::kFloat16;
  spec.mask = testing::ScoreArray::kFull;
  spec.bias = testing::ScoreArray::kPerRow;
  describe(spec);
  AttentionParams p = testing::Problem(spec).ParamsAt(nullptr, nullptr);
  p.mask.data = nullptr;  // shapes are checked before there is memory
  return p;
}

// What ValidateShape says of a sound problem after `change`.
std::string Refusal(const std::function<void(AttentionParams&)>& change) {
  AttentionParams p = Sound();
  change(p);
  const absl::Status status = ValidateShape(p);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status.ToString();
  return std::string(status.message());
}

void ExpectAccepted(const std::function<void(AttentionParams&)>& change) {
  AttentionParams p = Sound();
  change(p);
  const absl::Status status = ValidateShape(p);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(AttentionShapeTest, SoundProblemsOfEveryLayoutAreAccepted) {
  for (testing::Layout layout :
       {testing::Layout::kBshd, testing::Layout::kBhsd, testing::Layout::kPacked}) {
    for (std::int64_t slack : {0, 8}) {
      const absl::Status status = ValidateShape(Sound([&](testing::ProblemSpec& spec) {
        spec.layout = layout;
        spec.slack = slack;
      }));
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
}

TEST(AttentionShapeTest, EmptyProblemsAreAccepted) {
  EXPECT_TRUE(ValidateShape(Sound([](auto& spec) { spec.batch_size = 0; })).ok());
  EXPECT_TRUE(ValidateShape(Sound([](auto& spec) { spec.seqlen_q = 0; })).ok());
  EXPECT_TRUE(ValidateShape(Sound([](auto& spec) { spec.seqlen_k = 0; })).ok());
}

TEST(AttentionShapeTest, SizesOutOfRangeAreNamed) {
  EXPECT_EQ(Refusal([](auto& p) { p.batch_size = -1; }), "batch_size: -1; at least 0 is accepted");
  EXPECT_THAT(Refusal([](auto& p) { p.seqlen_q = -2; }), HasSubstr("seqlen_q: -2"));
  EXPECT_THAT(Refusal([](auto& p) { p.seqlen_k = -3; }), HasSubstr("seqlen_k: -3"));
  EXPECT_THAT(Refusal([](auto& p) { p.num_heads = 0; }), HasSubstr("num_heads: 0"));
  EXPECT_THAT(Refusal([](auto& p) { p.num_kv_heads = 0; }), HasSubstr("num_kv_heads: 0"));
  EXPECT_EQ(Refusal([](auto& p) { p.num_kv_heads = 3; }),
            "num_kv_heads: 3 does not divide num_heads 4");
}

TEST(AttentionShapeTest, HeadDimIsAMultipleOf8UpTo256) {
  for (std::int64_t head_dim : {-8, 0, 4, 63, 257, 264}) {
    EXPECT_THAT(Refusal([&](auto& p) { p.head_dim = head_dim; }), HasSubstr("head_dim: "));
    EXPECT_THAT(Refusal([&](auto& p) { p.head_dim_v = head_dim; }), HasSubstr("head_dim_v: "));
  }
  for (std::int64_t head_dim : {8, 40, 256}) {
    EXPECT_TRUE(ValidateShape(Sound([&](auto& spec) { spec.head_dim = head_dim; })).ok());
  }
}

TEST(AttentionShapeTest, ViewsMustAgreeWithTheProblem) {
  EXPECT_EQ(Refusal([](auto& p) { p.k.dim = 96; }), "k: head_dim 96, q has 64");
  EXPECT_THAT(Refusal([](auto& p) { p.q.dim = 96; }), HasSubstr("q: head_dim 96"));
  EXPECT_THAT(Refusal([](auto& p) { p.v.dim = 64; }), HasSubstr("v: head_dim 64"));
  EXPECT_THAT(Refusal([](auto& p) { p.out.dim = 64; }), HasSubstr("out: head_dim 64"));
  EXPECT_THAT(Refusal([](auto& p) { p.q.heads = 2; }), HasSubstr("q: heads 2, num_heads is 4"));
  EXPECT_THAT(Refusal([](auto& p) { p.v.heads = 4; }), HasSubstr("v: heads 4, num_kv_heads is 2"));
  EXPECT_THAT(Refusal([](auto& p) { p.q.seqlen = 4; }), HasSubstr("q: seqlen 4, seqlen_q is 3"));
  EXPECT_THAT(Refusal([](auto& p) { p.v.seqlen = 6; }), HasSubstr("v: seqlen 6, seqlen_k is 5"));
  EXPECT_THAT(Refusal([](auto& p) { p.out.seqlen = 2; }), HasSubstr("out: seqlen 2"));
  EXPECT_THAT(Refusal([](auto& p) { p.k.batch = 3; }), HasSubstr("k: batch 3, batch_size is 2"));
}

TEST(AttentionShapeTest, PackedTensorsHoldTheLongestSequence) {
  const auto packed = [](const std::function<void(AttentionParams&)>& change) {
    AttentionParams p = Sound([](auto& spec) { spec.layout = testing::Layout::kPacked; });
    change(p);
    return ValidateShape(p);
  };
  EXPECT_TRUE(packed([](auto&) {}).ok());
  EXPECT_THAT(std::string(packed([](auto& p) { p.seqlen_q = 100; }).message()),
              HasSubstr("q: seqlen 9, seqlen_q is 100"));
  EXPECT_THAT(std::string(packed([](auto& p) { p.k.batch_stride = 8; }).message()),
              HasSubstr("k: batch stride 8 of packed sequences"));
  EXPECT_THAT(std::string(packed([](auto& p) { p.v.seqlen += 1; }).message()),
              HasSubstr("v: seqlen 14, k has 13"));
  EXPECT_FALSE(packed([](auto& p) { p.k.batch = 2; }).ok());
}

TEST(AttentionShapeTest, TypesMustAgree) {
  EXPECT_EQ(Refusal([](auto& p) { p.k.dtype = DataType::kBFloat16; }),
            "k: dtype bfloat16, q has float16");
  EXPECT_THAT(Refusal([](auto& p) { p.v.dtype = DataType::kFloat32; }),
              HasSubstr("v: dtype float32"));
  EXPECT_THAT(Refusal([](auto& p) { p.out.dtype = DataType::kBFloat16; }),
              HasSubstr("out: dtype bfloat16; float16 or float32 is accepted"));
  EXPECT_THAT(Refusal([](auto& p) { p.q.dtype = p.k.dtype = p.v.dtype = DataType::kFloat32; }),
              HasSubstr("out: dtype float16; float32 is accepted"));
  EXPECT_THAT(Refusal([](auto& p) { p.bias.dtype = DataType::kBFloat16; }),
              HasSubstr("bias: dtype bfloat16"));
  EXPECT_THAT(Refusal([](auto& p) { p.q.dtype = static_cast<DataType>(7); }),
              HasSubstr("q: dtype 7 is no data type"));
  ExpectAccepted([](auto& p) { p.out.dtype = DataType::kFloat32; });
  ExpectAccepted([](auto& p) { p.bias.dtype = DataType::kFloat32; });
}

TEST(AttentionShapeTest, StridesAreChecked) {
  EXPECT_THAT(Refusal([](auto& p) { p.q.seq_stride = -1; }), HasSubstr("q: seqlen stride: -1"));
  EXPECT_THAT(Refusal([](auto& p) { p.k.head_stride = -8; }), HasSubstr("k: head stride: -8"));
  EXPECT_THAT(Refusal([](auto& p) { p.lse_head_stride = -8; }), HasSubstr("lse: head stride: -8"));
  ExpectAccepted([](auto& p) { p.k.seq_stride = 0; });  // inputs may repeat themselves
}

TEST(AttentionShapeTest, OutputsMayNotOverlapThemselves) {
  EXPECT_THAT(Refusal([](auto& p) { p.out.seq_stride = 0; }), HasSubstr("out: seqlen stride 0"));
  EXPECT_THAT(Refusal([](auto& p) { p.out.head_stride = 31; }), HasSubstr("out: head stride 31"));
  EXPECT_THAT(Refusal([](auto& p) { p.out.batch_stride = 3 * 128 - 1; }), HasSubstr("out: batch"));
}

TEST(AttentionShapeTest, StrideOfASingleEntryDoesNotMatter) {
  AttentionParams p = Sound([](auto& spec) {
    spec.num_heads = spec.num_kv_heads = 1;
    spec.seqlen_q = 1;
  });
  p.out.head_stride = p.out.seq_stride = 1;
  p.q.head_stride = kHuge;
  EXPECT_TRUE(ValidateShape(p).ok()) << ValidateShape(p).ToString();
}

TEST(AttentionShapeTest, SizesThatOverflowAreRefused) {
  EXPECT_THAT(Refusal([](auto& p) { p.q.batch_stride = kHuge; }), HasSubstr("q: does not fit"));
  EXPECT_THAT(Refusal([](auto& p) { p.k.seq_stride = kHuge / 5; }), HasSubstr("k: does not fit"));
  EXPECT_THAT(Refusal([](auto& p) {
                p.seqlen_k = p.k.seqlen = p.v.seqlen = kHuge / 4;
                p.k.seq_stride = p.v.seq_stride = 0;
              }),
              HasSubstr("k: does not fit"));
  EXPECT_THAT(Refusal([](auto& p) {
                p.batch_size = p.q.batch = p.k.batch = p.v.batch = p.out.batch = kHuge;
                p.seqlen_q = p.q.seqlen = p.out.seqlen = 0;
              }),
              HasSubstr("does not fit"));
  EXPECT_THAT(Refusal([](auto& p) { p.bias.row_stride = kHuge; }), HasSubstr("bias: does not fit"));
}

TEST(AttentionShapeTest, OptionsOutOfRangeAreNamed) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (float bad : {kNan, kInfinity, -kInfinity}) {
    EXPECT_THAT(Refusal([&](auto& p) { p.softmax_scale = bad; }), HasSubstr("softmax_scale: "));
    EXPECT_THAT(Refusal([&](auto& p) { p.softcap = bad; }), HasSubstr("softcap: "));
  }
  EXPECT_THAT(Refusal([](auto& p) { p.softcap = -1.0f; }), HasSubstr("softcap: -1"));
  EXPECT_THAT(Refusal([](auto& p) { p.window_left = -2; }), HasSubstr("window_left: -2"));
  EXPECT_THAT(Refusal([](auto& p) { p.window_right = -2; }), HasSubstr("window_right: -2"));
  EXPECT_THAT(Refusal([](auto& p) {
                p.causal = true;
                p.window_right = 1;
              }),
              HasSubstr("window_right: 1 with causal"));
  EXPECT_THAT(Refusal([](auto& p) { p.alibi_batch_stride = 3; }), HasSubstr("alibi_slopes"));
  ExpectAccepted([](auto& p) { p.softmax_scale = -0.5f; });
  ExpectAccepted([](auto& p) { p.window_left = p.window_right = kHuge; });
}

TEST(AttentionShapeTest, MaskAndBiasMustFitOrBroadcast) {
  EXPECT_THAT(Refusal([](auto& p) { p.mask.batch = 3; }),
              HasSubstr("mask: batch 3; 1 or batch_size 2 is accepted"));
  EXPECT_THAT(Refusal([](auto& p) { p.mask.heads = 2; }), HasSubstr("mask: heads 2"));
  EXPECT_THAT(Refusal([](auto& p) { p.bias.rows = 2; }), HasSubstr("bias: rows 2"));
  EXPECT_THAT(Refusal([](auto& p) { p.bias.cols = 1; }), HasSubstr("bias: cols 1, seqlen_k is 5"));
  EXPECT_THAT(Refusal([](auto& p) { p.bias.batch_stride = 5; }),
              HasSubstr("bias: batch stride 5 of a broadcast dimension"));
  ExpectAccepted([](auto& p) { p.mask = MaskView{}; });
}

TEST(AttentionShapeTest, CheckedMultiplyRefusesOverflowAndNegatives) {
  EXPECT_EQ(CheckedMultiply(3, 5), 15);
  EXPECT_EQ(CheckedMultiply(0, kHuge), 0);
  EXPECT_EQ(CheckedMultiply(1, kHuge), kHuge);
  EXPECT_EQ(CheckedMultiply(2, kHuge), -1);
  EXPECT_EQ(CheckedMultiply(std::int64_t{1} << 32, std::int64_t{1} << 31), -1);
  EXPECT_EQ(CheckedMultiply(-1, 1), -1);
  EXPECT_EQ(CheckedMultiply(CheckedMultiply(kHuge, 2), 0), -1);
}

TEST(AttentionShapeTest, FlopsCountBothProductsAndHalfASquareCausal) {
  AttentionParams p = Sound();
  EXPECT_EQ(AttentionFlops(p), 2.0 * 2 * 4 * 3 * 5 * (64 + 32));
  p.causal = true;
  EXPECT_EQ(AttentionFlops(p), 2.0 * 2 * 4 * 3 * 5 * (64 + 32));
  p.seqlen_q = 5;
  EXPECT_EQ(AttentionFlops(p), 2.0 * 2 * 4 * 5 * 5 * (64 + 32) / 2);
}

}  // namespace
}  // namespace attnd
