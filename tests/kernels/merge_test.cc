#include "kernels/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tests/testing/random_values.h"
#include "tests/testing/threaded_parallel_for.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Parts of random values, their results, and a run of RunMerge over them.
struct Parts {
  Parts(std::int64_t num_parts, std::int64_t rows, std::int64_t dim)
      : num_parts(num_parts),
        rows(rows),
        dim(dim),
        out_parts(num_parts * rows * dim),
        lse_parts(num_parts * rows),
        out(rows * dim, kNan),
        lse(rows, kNan) {
    testing::RandomValues random(7, testing::Distribution::kNormal);
    for (float& value : out_parts) value = random.Next();
    for (float& value : lse_parts) value = 3.0f * random.Next();
  }

  MergeParams params() {
    MergeParams p;
    p.num_parts = num_parts;
    p.rows = rows;
    p.dim = dim;
    p.out_parts = out_parts.data();
    p.lse_parts = lse_parts.data();
    p.out = out.data();
    p.lse = lse.data();
    return p;
  }
  void Run(ParallelFor* parallel_for = nullptr) {
    ExecutionContext context;
    context.parallel_for = parallel_for;
    const absl::Status status = RunMerge(params(), context);
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  // Makes a part empty in every row; its out is never to be read.
  void Clear(std::int64_t part) {
    std::fill_n(lse_parts.begin() + part * rows, rows, -kInfinity);
    std::fill_n(out_parts.begin() + part * rows * dim, rows * dim, kNan);
  }
  void ExpectExact() const;

  std::int64_t num_parts, rows, dim;
  std::vector<float> out_parts, lse_parts, out, lse;
};

void Parts::ExpectExact() const {
  for (std::int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    std::vector<double> exact(dim);
    for (std::int64_t part = 0; part < num_parts; ++part) {
      const double weight = std::exp(static_cast<double>(lse_parts[part * rows + row]));
      if (weight == 0) continue;
      sum += weight;
      for (std::int64_t d = 0; d < dim; ++d) {
        exact[d] += weight * out_parts[(part * rows + row) * dim + d];
      }
    }
    EXPECT_NEAR(lse[row], std::log(sum), 4e-6);
    for (std::int64_t d = 0; d < dim; ++d) {
      ASSERT_NEAR(out[row * dim + d], exact[d] / sum, 4e-6) << "row " << row << ", " << d;
    }
  }
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(MergeTest, AgreesWithTheFormulaForAnyNumberOfParts) {
  for (std::int64_t num_parts : {1, 2, 3, 17, 133}) {
    Parts parts(num_parts, 70, 40);
    parts.Run();
    parts.ExpectExact();
  }
}

TEST(MergeTest, AgreesWithTheFormulaForAnyWidth) {
  for (std::int64_t dim : {1, 7, 255, 256, 257, 1000}) {
    Parts parts(3, 5, dim);
    parts.Run();
    parts.ExpectExact();
  }
}

TEST(MergeTest, OnePartKeepsItsBits) {
  Parts parts(1, 3, 8);
  parts.out_parts[0] = -0.0f;
  parts.Run();
  EXPECT_TRUE(SameBits(parts.out, parts.out_parts));
  EXPECT_TRUE(SameBits(parts.lse, parts.lse_parts));
}

TEST(MergeTest, EmptyPartsChangeNothing) {
  Parts two(2, 9, 24);
  two.out_parts[0] = -0.0f;
  two.Run();
  Parts padded(5, 9, 24);
  for (std::int64_t part : {0, 2, 4}) padded.Clear(part);
  for (int i : {0, 1}) {
    std::copy_n(two.out_parts.begin() + i * 9 * 24, 9 * 24,
                padded.out_parts.begin() + (2 * i + 1) * 9 * 24);
    std::copy_n(two.lse_parts.begin() + i * 9, 9, padded.lse_parts.begin() + (2 * i + 1) * 9);
  }
  padded.Run();
  EXPECT_TRUE(SameBits(padded.out, two.out));
  EXPECT_TRUE(SameBits(padded.lse, two.lse));
}

TEST(MergeTest, EmptyPartsAloneMakeTheEmptyPart) {
  Parts parts(3, 2, 8);
  for (std::int64_t part : {0, 1, 2}) parts.Clear(part);
  parts.Run();
  EXPECT_EQ(parts.out, std::vector<float>(16, 0.0f));
  EXPECT_EQ(parts.lse, std::vector<float>(2, -kInfinity));
}

TEST(MergeTest, APartWhoseWeightVanishesIsNotRead) {
  Parts parts(2, 1, 8);
  parts.lse_parts = {0.0f, -1000.0f};
  std::fill_n(parts.out_parts.begin() + 8, 8, kNan);
  parts.Run();
  EXPECT_TRUE(SameBits(parts.out, {parts.out_parts.begin(), parts.out_parts.begin() + 8}));
}

TEST(MergeTest, LargeLsesDoNotOverflow) {
  Parts parts(2, 1, 1);
  parts.lse_parts = {1e4f, 1e4f};
  parts.out_parts = {1.0f, 3.0f};
  parts.Run();
  EXPECT_EQ(parts.out[0], 2.0f);
  EXPECT_NEAR(parts.lse[0], 1e4f + std::log(2.0f), 1e-3);
}

TEST(MergeTest, NanStaysNanInItsRow) {
  for (float lse : {kNan, kInfinity}) {
    Parts parts(3, 2, 4);
    parts.lse_parts[2] = lse;  // part 1, row 0
    parts.Run();
    EXPECT_TRUE(std::isnan(parts.lse[0]));
    EXPECT_TRUE(std::isnan(parts.out[3]));
    EXPECT_TRUE(std::isfinite(parts.lse[1]));
    EXPECT_TRUE(std::isfinite(parts.out[4]));
  }
}

TEST(MergeTest, PartsAreAddedInTheOrderGiven) {
  Parts parts(3, 1, 1);
  parts.lse_parts = {0.0f, 0.0f, 0.0f};
  parts.out_parts = {1e8f, 1.0f, -1e8f};
  parts.Run();
  EXPECT_EQ(parts.out[0], ((1e8f + 1.0f) + -1e8f) / 3.0f);
  parts.out_parts = {1e8f, -1e8f, 1.0f};
  parts.Run();
  EXPECT_EQ(parts.out[0], 1.0f / 3.0f);
}

TEST(MergeTest, ThreadsDoNotChangeTheBits) {
  Parts alone(5, 333, 72);
  Parts threaded(5, 333, 72);
  testing::ThreadedParallelFor parallel_for(3);
  alone.Run();
  threaded.Run(&parallel_for);
  EXPECT_TRUE(SameBits(alone.out, threaded.out));
  EXPECT_TRUE(SameBits(alone.lse, threaded.lse));
}

TEST(MergeTest, ResultIsRoundedOnceToItsType) {
  for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
    Parts parts(4, 3, 16);
    parts.Run();
    std::vector<std::uint16_t> narrow(3 * 16);
    MergeParams p = parts.params();
    p.out = narrow.data();
    p.out_dtype = dtype;
    p.lse = nullptr;
    ASSERT_TRUE(RunMerge(p, ExecutionContext{}).ok());
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      std::uint16_t expected = 0;
      StoreElement(&expected, dtype, 0, parts.out[i]);
      EXPECT_EQ(narrow[i], expected);
    }
  }
}

TEST(MergeTest, NoRowsIsNoWork) {
  Parts parts(2, 0, 8);
  EXPECT_TRUE(RunMerge(parts.params(), ExecutionContext{}).ok());
}

TEST(MergeTest, SizesAreChecked) {
  const auto refusal = [](auto change) {
    Parts parts(2, 3, 8);
    MergeParams p = parts.params();
    change(p);
    const absl::Status status = ValidateMerge(p);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(RunMerge(p, ExecutionContext{}), status);
    return std::string(status.message());
  };
  EXPECT_THAT(refusal([](MergeParams& p) { p.num_parts = 0; }), HasSubstr("num_parts: 0"));
  EXPECT_THAT(refusal([](MergeParams& p) { p.rows = -1; }), HasSubstr("rows: -1"));
  EXPECT_THAT(refusal([](MergeParams& p) { p.dim = 0; }), HasSubstr("head_dim_v: 0"));
  EXPECT_THAT(refusal([](MergeParams& p) { p.dim = 65537; }), HasSubstr("head_dim_v: 65537"));
  EXPECT_THAT(refusal([](MergeParams& p) { p.rows = std::int64_t{1} << 60; }),
              HasSubstr("63 bits"));
  EXPECT_THAT(refusal([](MergeParams& p) { p.out_dtype = static_cast<DataType>(9); }),
              HasSubstr("out_dtype: 9"));
}

}  // namespace
}  // namespace attnd
