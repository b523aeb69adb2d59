// Rows whose largest score grows from block to block: the Hopper kernel weighs scores under the
// maximum of earlier blocks until a later one lies far above it.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "tests/gpu/sm90_fixture.h"

namespace attnd::testing {
namespace {

constexpr int kRisingKeys = 100;  // about a block, from whose end on keys are walked to the left

// Scores of `row` are larger by about `rise`, in units of log2, for every kRisingKeys keys that lie
// further to the left.
void SetRise(Problem& problem, int row, float rise) {
  const ProblemSpec& spec = problem.spec();
  const float scale = 1.0f / std::sqrt(static_cast<float>(spec.head_dim));
  const float value = rise * std::log(2.0f) / (scale * static_cast<float>(spec.head_dim));
  for (int b = 0; b < spec.batch_size; ++b) {
    for (int i = 0; i < spec.num_heads * spec.head_dim; ++i)
      problem.SetQ(b, row, i % spec.num_heads, i / spec.num_heads, value);
  }
}

Problem RisingProblem(const ProblemSpec& spec, float rise) {
  Problem problem(spec);
  for (int row = 0; row < spec.seqlen_q; ++row) SetRise(problem, row, rise);
  for (int b = 0; b < spec.batch_size; ++b) {
    for (int key = 0; key < spec.seqlen_k; ++key) {
      const float level = static_cast<float>(spec.seqlen_k - key) / kRisingKeys;
      for (int d = 0; d < spec.head_dim; ++d) {
        const float noise = static_cast<float>((key * 29 + d * 17) % 63 - 31) / 256.0f;
        problem.SetK(b, key, 0, d, level + noise);
      }
    }
  }
  return problem;
}

ProblemSpec RisingSpec(int head_dim, int head_dim_v) {
  ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
  spec.batch_size = 1;
  spec.seqlen_k = 600;
  return spec;
}

class Sm90MaximaTest : public Sm90Test {
 protected:
  void ExpectRisingRowChangesNoOther(const ProblemSpec& spec, float rise) {
    constexpr int kRisingRow = 37;
    Problem plain = RisingProblem(spec, rise);
    Problem rising = RisingProblem(spec, rise);
    SetRise(rising, kRisingRow, 40.0f);
    ASSERT_TRUE(Runs(kernel_, device_, plain));
    ASSERT_TRUE(Runs(kernel_, device_, rising));
    for (int row = 0; row < spec.seqlen_q; ++row) {
      EXPECT_EQ(plain.Lse(0, 1, row) == rising.Lse(0, 1, row), row != kRisingRow) << "row " << row;
      for (int d = 0; d < spec.head_dim_v && row != kRisingRow; ++d)
        ASSERT_EQ(plain.Out(0, row, 1, d), rising.Out(0, row, 1, d)) << "row " << row;
    }
  }
};

// Mask and bias: each combination has kernels of its own.
constexpr std::pair<ScoreArray, ScoreArray> kArrays[] = {{ScoreArray::kNone, ScoreArray::kNone},
                                                         {ScoreArray::kPerRow, ScoreArray::kNone},
                                                         {ScoreArray::kNone, ScoreArray::kFull},
                                                         {ScoreArray::kPerRow, ScoreArray::kFull}};

TEST_F(Sm90MaximaTest, RowsThatRiseAgreeWithFloat64) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
      for (float rise : {-20.0f, 1.0f, 9.0f, 14.0f, 16.0f, 28.0f, 32.0f, 59.0f, 62.0f, 300.0f}) {
        for (const auto& [mask, bias] : kArrays) {
          ProblemSpec spec = RisingSpec(head_dim, head_dim_v);
          spec.dtype = dtype;
          spec.mask = mask;
          spec.bias = bias;
          spec.sinks = mask != ScoreArray::kNone;
          Problem problem = RisingProblem(spec, rise);
          const ExpectedResult expected = ComputeExpected(problem);
          ASSERT_TRUE(Runs(kernel_, device_, problem));
          EXPECT_TRUE(ResultsMatch(problem, expected))
              << "head_dim " << head_dim << ", rise " << rise;
        }
      }
    }
  }
}

TEST_F(Sm90MaximaTest, CappedRowsThatRiseAgreeWithFloat64) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
      for (float softcap : {20.0f, 60.0f, 600.0f}) {
        for (float rise : {-20.0f, 9.0f, 16.0f, 60.0f, 300.0f}) {
          ProblemSpec spec = RisingSpec(head_dim, head_dim_v);
          spec.dtype = dtype;
          spec.softcap = softcap;
          Problem problem = RisingProblem(spec, rise);
          const ExpectedResult expected = ComputeExpected(problem);
          ASSERT_TRUE(Runs(kernel_, device_, problem));
          EXPECT_TRUE(ResultsMatch(problem, expected))
              << "head_dim " << head_dim << ", softcap " << softcap << ", rise " << rise;
        }
      }
    }
  }
}

// Blocks that ALiBi lets rise and fall, from the right and from the left of the rows.
TEST_F(Sm90MaximaTest, SlopedRowsThatRiseAgreeWithFloat64) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
      for (float slope : {0.0f, 0.1f, -0.1f, 0.5f}) {
        for (float rise : {-20.0f, 9.0f, 16.0f, 60.0f}) {
          ProblemSpec spec = RisingSpec(head_dim, head_dim_v);
          spec.dtype = dtype;
          spec.alibi = Slopes::kPerHead;
          Problem problem = RisingProblem(spec, rise);
          problem.SetAlibiSlope(0, slope);
          const ExpectedResult expected = ComputeExpected(problem);
          ASSERT_TRUE(Runs(kernel_, device_, problem));
          EXPECT_TRUE(ResultsMatch(problem, expected))
              << "head_dim " << head_dim << ", slope " << slope << ", rise " << rise;
        }
      }
    }
  }
}

// A row that makes its warp correct itself leaves the bits of others alone.
TEST_F(Sm90MaximaTest, ARowThatRisesChangesNoOtherRow) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
      for (float rise : {2.0f, 13.0f}) {
        ProblemSpec spec = RisingSpec(head_dim, head_dim_v);
        spec.dtype = dtype;
        for (const auto& [mask, bias] : kArrays) {
          spec.mask = mask;
          spec.bias = bias;
          ExpectRisingRowChangesNoOther(spec, rise);
        }
        spec.mask = spec.bias = ScoreArray::kNone;
        for (float softcap : {30.0f, 60.0f}) {
          spec.softcap = softcap;
          ExpectRisingRowChangesNoOther(spec, rise);
        }
        spec.softcap = 0.0f;
        spec.alibi = Slopes::kPerHead;
        ExpectRisingRowChangesNoOther(spec, rise);
      }
    }
  }
}

}  // namespace
}  // namespace attnd::testing
