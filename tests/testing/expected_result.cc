#include "tests/testing/expected_result.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <mutex>
#include <thread>

#include "kernels/online_softmax.h"
#include "kernels/reference/attention_fp64.h"
#include "kernels/sequence_bounds.h"
#include "tests/testing/compare.h"
#include "tests/testing/threaded_parallel_for.h"
#include "tests/testing/unfused_baseline.h"

namespace attnd::testing {
namespace {

// Half a unit in the last place of 1.
double RoundingUnit(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
      return 0x1p-24;
    case DataType::kFloat16:
      return 0x1p-11;
    case DataType::kBFloat16:
      return 0x1p-8;
  }
  return 0.0;
}

// Collects the errors of the un-fused computation and the size of the values in one tensor.
class Tolerance {
 public:
  void Add(double exact, float unfused) {
    if (!std::isfinite(exact)) return;
    largest_ = std::max(largest_, std::abs(exact));
    if (std::isfinite(unfused)) error_ = std::max(error_, std::abs(exact - unfused));
  }
  void Add(const Tolerance& other) {
    largest_ = std::max(largest_, other.largest_);
    error_ = std::max(error_, other.error_);
  }
  // Rounding counts twice: once for the result itself, once for intermediate values of its size.
  double Allowed(DataType dtype) const {
    return 2.0 * error_ + (RoundingUnit(dtype) + RoundingUnit(DataType::kFloat32)) * largest_ +
           std::numeric_limits<float>::denorm_min();
  }

 private:
  double largest_ = 0.0;
  double error_ = 0.0;
};

// Index of the first element of (b, i, j) in a dense array of rows of `width` elements.
std::int64_t DenseRow(std::int64_t b, std::int64_t i, std::int64_t size_i, std::int64_t j,
                      std::int64_t size_j, std::int64_t width) {
  return ((b * size_i + i) * size_j + j) * width;
}

struct Tolerances {
  void Add(const Tolerances& other) {
    out.Add(other.out);
    lse.Add(other.lse);
    probs.Add(other.probs);
  }

  Tolerance out;
  Tolerance lse;
  Tolerance probs;
};

// Rows of one head that a thread computes on end.
struct RowRange {
  std::int64_t b;
  std::int64_t head;
  std::int64_t begin;
  std::int64_t end;
};

std::vector<RowRange> RangesOfAllRows(const AttentionParams& p) {
  constexpr std::int64_t kRows = 16;
  std::vector<RowRange> ranges;
  for (std::int64_t b = 0; b < p.batch_size; ++b) {
    const std::int64_t rows = BoundsOf(p, b).seqlen_q;
    for (std::int64_t head = 0; head < p.num_heads; ++head) {
      for (std::int64_t row = 0; row < rows; row += kRows) {
        ranges.push_back({b, head, row, std::min(row + kRows, rows)});
      }
    }
  }
  return ranges;
}

void AddRow(const AttentionParams& p, std::int64_t b, std::int64_t head, std::int64_t row,
            ExpectedResult& expected, Tolerances& tolerances) {
  const cpu::ReferenceRow exact = cpu::ComputeReferenceRow(p, b, head, row);
  const UnfusedRow unfused = ComputeUnfusedRow(p, b, head, row);
  const std::int64_t out = DenseRow(b, row, p.seqlen_q, head, p.num_heads, p.head_dim_v);
  std::copy(exact.out.begin(), exact.out.end(), expected.out.begin() + out);
  for (std::int64_t d = 0; d < p.head_dim_v; ++d) tolerances.out.Add(exact.out[d], unfused.out[d]);

  expected.lse[DenseRow(b, head, p.num_heads, row, p.seqlen_q, 1)] = exact.lse;
  tolerances.lse.Add(exact.lse, unfused.lse);

  if (p.probs == nullptr) return;
  const std::int64_t probs = DenseRow(b, head, p.num_heads, row, p.seqlen_q, p.seqlen_k);
  std::copy(exact.weights.begin(), exact.weights.end(), expected.probs.begin() + probs);
  for (std::size_t j = 0; j < exact.weights.size(); ++j) {
    tolerances.probs.Add(exact.weights[j], unfused.weights[j]);
  }
}

// Rows past a sequence that its tensor has room for attend to nothing.
void SetLseOfUnusedRoom(const AttentionParams& p, ExpectedResult& expected) {
  for (std::int64_t b = 0; b < p.batch_size; ++b) {
    const SequenceBounds s = BoundsOf(p, b);
    for (std::int64_t head = 0; head < p.num_heads; ++head) {
      const auto lse = expected.lse.begin() + DenseRow(b, head, p.num_heads, 0, p.seqlen_q, 1);
      std::fill(lse + s.seqlen_q, lse + s.room_q, NegativeInfinity());
    }
  }
}

// Threads take longer to start than a few ranges of a small problem.
int ThreadsFor(std::size_t ranges) {
  constexpr std::size_t kRangesForThreads = 8;
  if (ranges < kRangesForThreads) return 1;
  const std::size_t cores = std::max(std::thread::hardware_concurrency(), 1u);
  return static_cast<int>(std::min(cores, ranges));
}

// The results of `problem` in the layout of ExpectedResult.
struct ActualResult {
  std::vector<float> out;
  std::vector<float> lse;
  std::vector<float> probs;
};

ActualResult ReadResults(Problem& problem) {
  const AttentionParams p = problem.params();
  ActualResult actual;
  actual.out.resize(p.batch_size * p.seqlen_q * p.num_heads * p.head_dim_v);
  actual.lse.resize(p.batch_size * p.num_heads * p.seqlen_q);
  for (std::int64_t b = 0; b < p.batch_size; ++b) {
    const std::int64_t room = BoundsOf(p, b).room_q;
    for (std::int64_t i = 0; i < room * p.num_heads; ++i) {
      const std::int64_t row = i / p.num_heads;
      const std::int64_t head = i % p.num_heads;
      const std::int64_t out = DenseRow(b, row, p.seqlen_q, head, p.num_heads, p.head_dim_v);
      for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
        actual.out[out + d] = problem.Out(b, row, head, d);
      }
      if (p.lse == nullptr) continue;
      actual.lse[DenseRow(b, head, p.num_heads, row, p.seqlen_q, 1)] = problem.Lse(b, head, row);
    }
  }
  if (p.probs != nullptr) {
    const std::int64_t size = p.batch_size * p.num_heads * p.seqlen_q * p.seqlen_k;
    actual.probs.assign(p.probs, p.probs + size);
  }
  return actual;
}

}  // namespace

ExpectedResult ComputeExpected(Problem& problem) {
  const AttentionParams p = problem.params();
  ExpectedResult expected;
  expected.out.resize(p.batch_size * p.seqlen_q * p.num_heads * p.head_dim_v);
  expected.lse.resize(p.batch_size * p.num_heads * p.seqlen_q);
  if (p.probs != nullptr) {
    expected.probs.resize(p.batch_size * p.num_heads * p.seqlen_q * p.seqlen_k);
  }
  const std::vector<RowRange> ranges = RangesOfAllRows(p);
  std::mutex mutex;
  Tolerances tolerances;
  ThreadedParallelFor threads(ThreadsFor(ranges.size()));
  threads.Run(std::ssize(ranges), [&](std::int64_t i) {
    Tolerances of_range;
    for (std::int64_t row = ranges[i].begin; row < ranges[i].end; ++row) {
      AddRow(p, ranges[i].b, ranges[i].head, row, expected, of_range);
    }
    const std::scoped_lock lock(mutex);
    tolerances.Add(of_range);
  });
  SetLseOfUnusedRoom(p, expected);
  expected.allowed_out = tolerances.out.Allowed(p.out.dtype);
  expected.allowed_lse = tolerances.lse.Allowed(DataType::kFloat32);
  expected.allowed_probs = tolerances.probs.Allowed(DataType::kFloat32);
  return expected;
}

::testing::AssertionResult ResultsMatch(Problem& problem, const ExpectedResult& expected) {
  const AttentionParams p = problem.params();
  const ActualResult actual = ReadResults(problem);
  ::testing::AssertionResult result =
      Matches({"out",
               {p.batch_size, p.seqlen_q, p.num_heads, p.head_dim_v},
               expected.out,
               actual.out,
               expected.allowed_out});
  if (result && p.lse != nullptr) {
    result = Matches({"lse",
                      {p.batch_size, p.num_heads, p.seqlen_q},
                      expected.lse,
                      actual.lse,
                      expected.allowed_lse});
  }
  if (result && p.probs != nullptr) {
    result = Matches({"probs",
                      {p.batch_size, p.num_heads, p.seqlen_q, p.seqlen_k},
                      expected.probs,
                      actual.probs,
                      expected.allowed_probs});
  }
  if (!result) return result;
  const std::int64_t stray = problem.CountStrayWrites();
  if (stray == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << stray << " bytes were written that belong to no result";
}

::testing::AssertionResult SameBits(Problem& alone, Problem& batched, std::int64_t b) {
  const AttentionParams p = alone.params();
  const auto same = [](float x, float y) { return std::memcmp(&x, &y, sizeof(x)) == 0; };
  for (std::int64_t i = 0; i < p.seqlen_q * p.num_heads; ++i) {
    const std::int64_t row = i / p.num_heads;
    const std::int64_t head = i % p.num_heads;
    for (std::int64_t d = 0; d < p.head_dim_v; ++d) {
      const float x = alone.Out(0, row, head, d);
      const float y = batched.Out(b, row, head, d);
      if (!same(x, y)) {
        return ::testing::AssertionFailure()
               << "out of sequence " << b << ", row " << row << ", head " << head << ", element "
               << d << " is " << x << " alone and " << y << " in the batch";
      }
    }
    if (p.lse == nullptr) continue;
    const float x = alone.Lse(0, head, row);
    const float y = batched.Lse(b, head, row);
    if (!same(x, y)) {
      return ::testing::AssertionFailure()
             << "lse of sequence " << b << ", row " << row << ", head " << head << " is " << x
             << " alone and " << y << " in the batch";
    }
  }
  return ::testing::AssertionSuccess();
}

}  // namespace attnd::testing
