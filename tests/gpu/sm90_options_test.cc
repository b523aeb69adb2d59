// The Hopper kernel's score options: the ways that bias and mask come to it, ALiBi on raw products,
// and softcap inside the exponent.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "tests/gpu/sm90_fixture.h"

namespace attnd::testing {
namespace {

class Sm90OptionsTest : public Sm90Test {
 protected:
  // The same bits from arrays whose rows the copy engine can read and from those that begin at odd
  // addresses, which are read from memory instead.
  void ExpectTheSameWhereverArraysLie(ProblemSpec spec) {
    Problem copied(spec);
    spec.score_slack = 1;
    Problem read(spec);
    ASSERT_TRUE(Runs(kernel_, device_, copied));
    ASSERT_TRUE(Runs(kernel_, device_, read));
    EXPECT_TRUE(SameOutputs(copied, read)) << "head_dim " << spec.head_dim;
  }
};

// Rows of bias and mask that the copy engine can read.
ProblemSpec ArraySpec(int head_dim, int head_dim_v) {
  ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
  spec.seqlen_q = 200;
  spec.seqlen_k = 304;
  return spec;
}

struct Arrays {
  ScoreArray bias;
  std::optional<DataType> bias_dtype;
  ScoreArray mask;
};

// One and two slots of shared memory, and each shape that is and that is not copied.
constexpr Arrays kArrays[] = {
    {ScoreArray::kFull, std::nullopt, ScoreArray::kNone},
    {ScoreArray::kPerHead, DataType::kFloat32, ScoreArray::kNone},
    {ScoreArray::kNone, std::nullopt, ScoreArray::kPerRow},
    {ScoreArray::kPerRow, std::nullopt, ScoreArray::kFull},
    {ScoreArray::kFull, DataType::kFloat32, ScoreArray::kPerRow},
    {ScoreArray::kColumnsOnly, std::nullopt, ScoreArray::kPerRow},
    {ScoreArray::kPerRow, DataType::kFloat32, ScoreArray::kPerBatch},
};

ProblemSpec WithArrays(ProblemSpec spec, const Arrays& arrays) {
  spec.bias = arrays.bias;
  spec.bias_dtype = arrays.bias_dtype;
  spec.mask = arrays.mask;
  return spec;
}

TEST_F(Sm90OptionsTest, BiasAndMaskOfEveryShapeAgreeWithFloat64) {
  int checks = 0;
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (const Arrays& arrays : kArrays) {
      ProblemSpec spec = WithArrays(ArraySpec(head_dim, head_dim_v), arrays);
      spec.dtype = ++checks % 2 == 0 ? DataType::kFloat16 : DataType::kBFloat16;
      spec.causal = checks % 3 == 0;
      Check(spec);
    }
  }
}

TEST_F(Sm90OptionsTest, BiasAndMaskRoundAlikeWhereverTheyLie) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (const Arrays& arrays : kArrays) {
      ProblemSpec spec = WithArrays(ArraySpec(head_dim, head_dim_v), arrays);
      ExpectTheSameWhereverArraysLie(spec);
      spec.softcap = 3.0f;
      spec.alibi = Slopes::kPerHead;
      ExpectTheSameWhereverArraysLie(spec);
    }
  }
}

// One block computes all tiles: the rings of bias and mask run on from tile to tile, also past
// warpgroups without rows and blocks that only some warpgroups see.
TEST_F(Sm90OptionsTest, OneBlockWalksTilesWithArrays) {
  const DeviceTraits single = WithMultiprocessors(device_, 1);
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (const Arrays& arrays : {kArrays[0], kArrays[4]}) {  // two slots, and one
      ProblemSpec spec = WithArrays(ArraySpec(head_dim, head_dim_v), arrays);
      spec.batch_size = 3;
      spec.num_heads = 1;
      spec.seqlen_q = 300;
      spec.seqlen_k = 480;
      spec.lengths_q = {300, 130, 0};
      spec.lengths_k = {480, 5, 333};
      Check(spec, single);
      spec.causal = true;
      spec.layout = Layout::kPacked;
      spec.rooms_q = {300, 131, 257};
      spec.rooms_k = {480, 113, 400};
      Check(spec, single);
    }
  }
}

// Enough keys for a mask's tiles to be classified, in squares that make blocks empty, partial and
// full, for one warpgroup and for all; also whole tiles without a key.
ProblemSpec SquaresSpec(int head_dim, int head_dim_v, ScoreArray mask) {
  ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
  spec.seqlen_q = 460;
  spec.seqlen_k = 1040;
  spec.mask = mask;
  spec.mask_square = 150;
  return spec;
}

constexpr ScoreArray kMaskShapes[] = {ScoreArray::kFull, ScoreArray::kPerBatch,
                                      ScoreArray::kPerHead, ScoreArray::kPerRow,
                                      ScoreArray::kColumnsOnly};

TEST_F(Sm90OptionsTest, MasksOfSquaresAgreeWithFloat64) {
  int checks = 0;
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (ScoreArray mask : kMaskShapes) {
      ProblemSpec spec = SquaresSpec(head_dim, head_dim_v, mask);
      spec.dtype = ++checks % 2 == 0 ? DataType::kFloat16 : DataType::kBFloat16;
      Check(spec);
      spec.causal = true;
      spec.window_left = 400;
      spec.sinks = true;
      Check(spec);
      spec.bias = checks % 3 == 0 ? ScoreArray::kColumnsOnly : ScoreArray::kPerHead;
      if (checks % 3 == 1) spec.bias_dtype = DataType::kFloat32;
      Check(spec);
    }
  }
}

// Those at odd addresses are classified byte by byte, too.
TEST_F(Sm90OptionsTest, MasksOfSquaresRoundAlikeWhereverTheyLie) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (bool causal : {false, true}) {
      ProblemSpec spec = SquaresSpec(head_dim, head_dim_v, ScoreArray::kFull);
      spec.batch_size = 1;
      spec.seqlen_q = 200;
      spec.seqlen_k = 560;
      spec.causal = causal;
      ExpectTheSameWhereverArraysLie(spec);
    }
  }
}

// Without memory for the classes, every block is computed and looked up.
TEST_F(Sm90OptionsTest, TileClassesChangeNoBit) {
  KernelImplementation without = kernel_;
  without.workspace_bytes = [](const AttentionParams&, const DeviceTraits&) -> std::int64_t {
    return 0;
  };
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (ScoreArray mask : {ScoreArray::kFull, ScoreArray::kColumnsOnly}) {
      for (bool causal : {false, true}) {
        ProblemSpec spec = SquaresSpec(head_dim, head_dim_v, mask);
        spec.causal = causal;
        Problem classified(spec);
        Problem looked_up(spec);
        ASSERT_TRUE(Runs(kernel_, device_, classified));
        ASSERT_TRUE(Runs(without, device_, looked_up));
        EXPECT_TRUE(SameOutputs(classified, looked_up)) << "head_dim " << head_dim;
      }
    }
  }
}

// One block computes all tiles of sequences of different lengths, some without rows or keys.
TEST_F(Sm90OptionsTest, OneBlockWalksMasksOfSquares) {
  const DeviceTraits single = WithMultiprocessors(device_, 1);
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (ScoreArray mask : kMaskShapes) {
      ProblemSpec spec = SquaresSpec(head_dim, head_dim_v, mask);
      spec.batch_size = 3;
      spec.lengths_q = {300, 130, 0};
      spec.lengths_k = {1040, 5, 733};
      Check(spec, single);
      spec.layout = Layout::kPacked;
      spec.rooms_q = {300, 131, 257};
      spec.rooms_k = {1040, 113, 1000};
      Check(spec, single);
    }
  }
}

// Values of keys that the mask hides from a whole tile are not read.
TEST_F(Sm90OptionsTest, HiddenBlocksAreNotRead) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    ProblemSpec spec = SquaresSpec(head_dim, head_dim_v, ScoreArray::kPerRow);
    Problem problem(spec);
    constexpr int kHidden = 256;  // keys from here on for twice as many
    for (int row = 0; row < spec.seqlen_q; ++row) {
      for (int key = kHidden; key < 3 * kHidden; ++key) problem.SetMask(0, 0, row, key, false);
    }
    const ExpectedResult expected = ComputeExpected(problem);
    for (int b = 0; b < spec.batch_size; ++b) {
      for (int key = kHidden + 128; key < 3 * kHidden - 128; ++key) {
        problem.SetK(b, key, 0, 0, NAN);
        problem.SetV(b, key, 0, 0, NAN);
      }
    }
    ASSERT_TRUE(Runs(kernel_, device_, problem));
    EXPECT_TRUE(ResultsMatch(problem, expected)) << "head_dim " << head_dim;
  }
}

// ALiBi alone. Keys on both sides of the rows, slopes of both signs, and slopes so steep that they
// round products away where they are added up key by key, or overflow over the scale.
TEST_F(Sm90OptionsTest, SlopesOfEverySteepnessAgreeWithFloat64) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (float slope : {0.0f, 0.004f, 0.7f, -0.02f, 1.9f, 5.0f, 1e4f, 3e38f}) {
      for (bool causal : {false, true}) {
        ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
        spec.seqlen_q = 300;
        spec.seqlen_k = 400;
        spec.causal = causal;
        spec.sinks = causal;
        spec.alibi = Slopes::kPerHead;
        Problem problem(spec);
        problem.SetAlibiSlope(0, slope);
        const ExpectedResult expected = ComputeExpected(problem);
        ASSERT_TRUE(Runs(kernel_, device_, problem));
        EXPECT_TRUE(ResultsMatch(problem, expected))
            << "head_dim " << head_dim << ", slope " << slope << ", causal " << causal;
      }
    }
  }
}

// Scores on both sides of where the polynomial for tanh ends, and all within it.
TEST_F(Sm90OptionsTest, SoftcapsAgreeWithFloat64) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
      for (float softcap : {0.1f, 2.0f, 50.0f, 1000.0f}) {
        ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
        spec.dtype = dtype;
        spec.softcap = softcap;
        Check(spec);
        spec.causal = true;
        spec.window_left = 70;
        spec.sinks = true;
        Check(spec);
      }
    }
  }
}

// Large scores in one row take its whole warp another way; so do softcaps that settle rows and
// those that settle none (CapConstants).
TEST_F(Sm90OptionsTest, ARowOfLargeScoresChangesNoOtherRow) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
      for (float softcap : {30.0f, 60.0f}) {
        ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
        spec.dtype = dtype;
        spec.softcap = softcap;
        Problem plain(spec);
        Problem large(spec);
        constexpr int kLargeRow = 37;
        for (int d = 0; d < head_dim; ++d) large.SetQ(0, kLargeRow, 1, d, 40.0f);
        ASSERT_TRUE(Runs(kernel_, device_, plain));
        ASSERT_TRUE(Runs(kernel_, device_, large));
        for (int row = 0; row < spec.seqlen_q; ++row) {
          EXPECT_EQ(plain.Lse(0, 1, row) == large.Lse(0, 1, row), row != kLargeRow)
              << "row " << row;
          for (int d = 0; d < head_dim_v && row != kLargeRow; ++d)
            ASSERT_EQ(plain.Out(0, row, 1, d), large.Out(0, row, 1, d)) << "row " << row;
        }
      }
    }
  }
}

// Every score but that of `largest_key` lies far below 0, where the polynomial for tanh does not
// reach: the rows are settled from the block of that key on, if the softcap settles any.
Problem FarBelowTheLargest(const ProblemSpec& spec, int largest_key) {
  Problem problem(spec);
  const float score = spec.softcap / std::sqrt(static_cast<float>(spec.head_dim));
  for (int b = 0; b < spec.batch_size; ++b) {
    for (int row = 0; row < spec.seqlen_q; ++row) {
      for (int d = 0; d < 2 * spec.head_dim; ++d) problem.SetQ(b, row, d % 2, d / 2, 1.0f);
    }
    for (int key = 0; key < spec.seqlen_k; ++key) {
      for (int d = 0; d < spec.head_dim; ++d)
        problem.SetK(b, key, 0, d, key == largest_key ? 0.1f * score : -0.9f * score);
    }
  }
  return problem;
}

TEST_F(Sm90OptionsTest, ScoresFarBelowTheLargestAgreeWithFloat64) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
      for (float softcap : {4.0f, 50.0f, 70.0f}) {
        for (int largest_key : {0, 259}) {
          ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
          spec.dtype = dtype;
          spec.softcap = softcap;
          Problem problem = FarBelowTheLargest(spec, largest_key);
          const ExpectedResult expected = ComputeExpected(problem);
          ASSERT_TRUE(Runs(kernel_, device_, problem));
          EXPECT_TRUE(ResultsMatch(problem, expected))
              << "head_dim " << head_dim << ", softcap " << softcap;
        }
      }
    }
  }
}

// Rows that come to scores within the polynomial's reach first, and then to some beyond it that
// weigh not much more: their maximum has to move all the same. All scores are whole numbers, which
// no type rounds.
TEST_F(Sm90OptionsTest, ScoresBeyondReachAfterOthersWithinAgreeWithFloat64) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
      for (float softcap : {40.0f, 45.0f, 50.0f, 200.0f}) {
        for (float more : {1.0f, 4.0f, 9.0f}) {
          ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
          spec.dtype = dtype;
          spec.softcap = softcap;
          spec.softmax_scale = 1.0f / static_cast<float>(head_dim);
          const float reach = dtype == DataType::kBFloat16 ? 0.6f : 0.75f;
          const float within = std::floor(reach * softcap) - 1.0f;
          const float beyond =
              std::floor(softcap * std::atanh(std::tanh(within / softcap) + more / softcap));
          Problem problem(spec);
          for (int b = 0; b < spec.batch_size; ++b) {
            for (int i = 0; i < spec.seqlen_q * spec.num_heads * head_dim; ++i)
              problem.SetQ(b, i / head_dim / 2, i / head_dim % 2, i % head_dim, 1.0f);
            for (int key = 0; key < spec.seqlen_k; ++key) {
              const float score = key == 3 ? beyond : key == 7 ? beyond - 1.0f : within;
              for (int d = 0; d < head_dim; ++d) problem.SetK(b, key, 0, d, score);
            }
          }
          const ExpectedResult expected = ComputeExpected(problem);
          ASSERT_TRUE(Runs(kernel_, device_, problem));
          EXPECT_TRUE(ResultsMatch(problem, expected))
              << "head_dim " << head_dim << ", softcap " << softcap << ", " << more << " more";
        }
      }
    }
  }
}

// A settled row keeps its bits when another row takes their warp the long way, also where its
// products are larger than the polynomial is for.
TEST_F(Sm90OptionsTest, ALargeRowChangesNoSettledRow) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
      ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
      spec.dtype = dtype;
      spec.softcap = 60.0f;
      constexpr int kLargestKey = 259;
      constexpr int kLargeRow = 5;
      Problem plain = FarBelowTheLargest(spec, kLargestKey);
      Problem large = FarBelowTheLargest(spec, kLargestKey);
      for (int d = 0; d < head_dim; ++d) large.SetQ(0, kLargeRow, 1, d, 20.0f);
      ASSERT_TRUE(Runs(kernel_, device_, plain));
      ASSERT_TRUE(Runs(kernel_, device_, large));
      for (int row = 0; row < spec.seqlen_q; ++row) {
        EXPECT_EQ(plain.Lse(0, 1, row) == large.Lse(0, 1, row), row != kLargeRow) << "row " << row;
        for (int d = 0; d < head_dim_v && row != kLargeRow; ++d)
          ASSERT_EQ(plain.Out(0, row, 1, d), large.Out(0, row, 1, d)) << "row " << row;
      }
    }
  }
}

// A product of -inf is capped like any other; only hidden keys have no weight at all.
TEST_F(Sm90OptionsTest, SoftcapOfAnInfiniteProductIsTheCap) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
    spec.batch_size = 1;
    spec.softcap = 2.0f;
    spec.causal = true;
    Problem problem(spec);
    constexpr int kKey = 120;
    for (int d = 0; d < head_dim; ++d) problem.SetK(0, kKey, 0, d, d == 3 ? -INFINITY : 0.0f);
    const ExpectedResult expected = ComputeExpected(problem);
    ASSERT_TRUE(Runs(kernel_, device_, problem));
    EXPECT_TRUE(ResultsMatch(problem, expected)) << "head_dim " << head_dim;
    EXPECT_TRUE(std::isfinite(problem.Lse(0, 1, 60)));
  }
}

}  // namespace
}  // namespace attnd::testing
