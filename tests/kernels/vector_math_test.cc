// Errors of the vector functions of the CPU's softmax, on each instruction set that the machine
// has.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/vector_math_test.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/vector_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd::cpu::HWY_NAMESPACE {

// y[i] = f(x[i]) for i < n, a multiple of 16.
void ExpOf(const float* x, float* y, std::size_t n) {
  const hn::CappedTag<float, 16> d;
  for (std::size_t i = 0; i < n; i += hn::MaxLanes(d)) {
    hn::StoreU(ExpOfNonPositive(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

void TanhOf(const float* x, float* y, std::size_t n) {
  const hn::CappedTag<float, 16> d;
  for (std::size_t i = 0; i < n; i += hn::MaxLanes(d)) {
    hn::StoreU(Tanh(d, hn::LoadU(d, x + i)), d, y + i);
  }
}

}  // namespace attnd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd::cpu {
namespace {

HWY_EXPORT(ExpOf);
HWY_EXPORT(TanhOf);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class VectorMathTest : public ::testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override {
    if ((hwy::SupportedTargets() & GetParam()) == 0) GTEST_SKIP() << "not on this machine";
    hwy::DisableTargets(~GetParam());
  }
  void TearDown() override { hwy::DisableTargets(0); }

  std::vector<float> Exp(std::vector<float> x) {
    x.resize((x.size() + 15) / 16 * 16);
    std::vector<float> y(x.size());
    HWY_DYNAMIC_DISPATCH(ExpOf)(x.data(), y.data(), x.size());
    return y;
  }
  std::vector<float> TanhValues(std::vector<float> x) {
    x.resize((x.size() + 15) / 16 * 16);
    std::vector<float> y(x.size());
    HWY_DYNAMIC_DISPATCH(TanhOf)(x.data(), y.data(), x.size());
    return y;
  }
};

std::vector<float> Range(float begin, float end, int count) {
  std::vector<float> x;
  for (int i = 0; i < count; ++i) {
    x.push_back(begin + (end - begin) * static_cast<float>(i) / static_cast<float>(count));
  }
  return x;
}

// Largest error of `actual` in units in the last place of the exact f(x).
template <typename F>
double LargestErrorInUlp(const std::vector<float>& x, const std::vector<float>& actual, F f) {
  double largest = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double exact = f(static_cast<double>(x[i]));
    const float nearest = static_cast<float>(exact);
    const double ulp = std::nextafter(std::abs(nearest), kInfinity) - std::abs(nearest);
    largest = std::max(largest, std::abs(actual[i] - exact) / ulp);
  }
  return largest;
}

TEST_P(VectorMathTest, ExpIsWithinOneUlp) {
  // SSE4 has no fused multiply-add and rounds twice as often.
  const double allowed = GetParam() == HWY_SSE4 ? 1.2 : 1.0;
  for (const auto& [begin, end] : {std::pair{-87.3f, 0.0f}, {-1.0f, 0.0f}, {-1e-3f, 0.0f}}) {
    const std::vector<float> x = Range(begin, end, 100000);
    EXPECT_LE(LargestErrorInUlp(x, Exp(x), [](double v) { return std::exp(v); }), allowed);
  }
}

TEST_P(VectorMathTest, ExpOfZeroIsExactlyOne) { EXPECT_EQ(Exp({0.0f})[0], 1.0f); }

TEST_P(VectorMathTest, ExpIsExactlyZeroFarDown) {
  const std::vector<float> y = Exp({-88.0f, -89.0f, -1e30f, -kInfinity});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(y[i], 0.0f);
}

TEST_P(VectorMathTest, ExpKeepsNan) {
  const float plain = std::numeric_limits<float>::quiet_NaN();
  const float payload = std::nanf("0x1ff");  // its low bits would land in the exponent
  const std::vector<float> y = Exp({plain, payload, -payload});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(y[i])) << y[i];
}

TEST_P(VectorMathTest, TanhIsWithinThreeUlp) {
  for (const auto& [begin, end] : {std::pair{-10.0f, 10.0f}, {-0.7f, 0.7f}, {1e-6f, 1e-3f}}) {
    const std::vector<float> x = Range(begin, end, 100001);
    EXPECT_LE(LargestErrorInUlp(x, TanhValues(x), [](double v) { return std::tanh(v); }), 3.0);
  }
}

TEST_P(VectorMathTest, TanhOfInfinityAndNan) {
  const std::vector<float> y =
      TanhValues({kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 0.0f});
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_EQ(y[1], -1.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 0.0f);
}

INSTANTIATE_TEST_SUITE_P(Targets, VectorMathTest, ::testing::Values(HWY_AVX3, HWY_AVX2, HWY_SSE4),
                         [](const auto& info) { return std::string(hwy::TargetName(info.param)); });

}  // namespace
}  // namespace attnd::cpu
#endif  // HWY_ONCE
