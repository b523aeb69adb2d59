#include "kernels/online_softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace attnd {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Result {
  SoftmaxState state;
  float out = 0.0f;  // un-normalised sum of weight * value
};

// Absorbs scores whose values are their own indices.
Result Absorb(const std::vector<float>& scores) {
  Result result;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    float weight;
    const float factor = result.state.Update(scores[i], &weight);
    result.out = result.out * factor + weight * static_cast<float>(i);
  }
  return result;
}

TEST(OnlineSoftmaxTest, AgreesWithTheSoftmaxOfAllScoresAtOnce) {
  const std::vector<float> scores = {0.3f, -2.0f, 5.0f, 4.5f, -7.0f, 5.5f, 1.0f};
  double sum = 0;
  double out = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    sum += std::exp(static_cast<double>(scores[i]));
    out += std::exp(static_cast<double>(scores[i])) * static_cast<double>(i);
  }
  const Result result = Absorb(scores);
  EXPECT_NEAR(result.state.Lse(), std::log(sum), 1e-6);
  EXPECT_NEAR(result.out * result.state.InverseSum(), out / sum, 1e-6);
}

TEST(OnlineSoftmaxTest, StateThatSawNothingIsEmpty) {
  const SoftmaxState empty;
  EXPECT_EQ(empty.Lse(), NegativeInfinity());
  EXPECT_EQ(empty.InverseSum(), 0.0f);
}

TEST(OnlineSoftmaxTest, ScoreOfMinusInfinityChangesNothing) {
  SoftmaxState state;
  float weight = -1.0f;
  EXPECT_EQ(state.Update(NegativeInfinity(), &weight), 1.0f);
  EXPECT_EQ(weight, 0.0f);
  EXPECT_EQ(state.Lse(), NegativeInfinity());
  state.Update(2.0f, &weight);
  const SoftmaxState before = state;
  EXPECT_EQ(state.Update(NegativeInfinity(), &weight), 1.0f);
  EXPECT_EQ(state.m, before.m);
  EXPECT_EQ(state.l, before.l);
}

TEST(OnlineSoftmaxTest, FirstScoreDropsWhatWasInTheOutputBefore) {
  SoftmaxState state;
  float weight;
  EXPECT_EQ(state.Update(-3.0f, &weight), 0.0f);
  EXPECT_EQ(weight, 1.0f);
}

TEST(OnlineSoftmaxTest, HugeScoresNeitherOverflowNorVanish) {
  for (float score : {1e30f, -1e30f, 3e38f, -3e38f}) {
    const Result result = Absorb({score, score});
    EXPECT_EQ(result.out * result.state.InverseSum(), 0.5f);
    EXPECT_EQ(result.state.Lse(), score);
  }
}

TEST(OnlineSoftmaxTest, NanStaysNan) {
  for (const std::vector<float>& scores :
       {std::vector<float>{kNan}, {1.0f, kNan}, {kNan, 1.0f}, {1.0f, kNan, 100.0f}}) {
    const Result result = Absorb(scores);
    EXPECT_TRUE(std::isnan(result.state.Lse()));
    EXPECT_TRUE(std::isnan(result.out * result.state.InverseSum()));
  }
}

TEST(OnlineSoftmaxTest, SinkJoinsTheDenominatorOnly) {
  Result result = Absorb({0.0f, 0.0f});
  result.out *= result.state.AddSink(0.0f);
  EXPECT_NEAR(result.out * result.state.InverseSum(), 1.0f / 3.0f, 1e-6);
  EXPECT_NEAR(result.state.Lse(), std::log(3.0f), 1e-6);
}

TEST(OnlineSoftmaxTest, SinkAloneIsTheLse) {
  SoftmaxState state;
  state.AddSink(1.25f);
  EXPECT_EQ(state.Lse(), 1.25f);
}

}  // namespace
}  // namespace attnd
