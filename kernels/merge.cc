#include "kernels/merge.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/attention_shape.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/online_softmax.h"
#include "kernels/status_macros.h"

namespace attnd {
namespace {

constexpr std::int64_t kRowsPerTask = 64;

// The largest lse of the parts of `row`; -inf if all are empty. NaN is no maximum: it enters
// through its weight.
float LargestLse(const MergeParams& p, std::int64_t row) {
  float largest = NegativeInfinity();
  for (std::int64_t part = 0; part < p.num_parts; ++part) {
    largest = std::fmax(largest, p.lse_parts[part * p.rows + row]);
  }
  return largest;
}

// sum = weight * values, or sum += weight * values. The first part is assigned, so that a single
// part keeps its bits, the sign of a zero included.
void Accumulate(float weight, const float* values, std::int64_t dim, bool first, float* sum) {
  for (std::int64_t d = 0; d < dim; ++d) {
    const float term = weight * values[d];
    sum[d] = first ? term : sum[d] + term;
  }
}

// Elements [begin, begin + size) of one merged row.
struct Slice {
  std::int64_t begin = 0;
  std::int64_t size = 0;
};

// Sums the weighted parts of a slice of `row` into `sum` and returns the sum of the weights: 0 if
// all parts are empty.
float SumParts(const MergeParams& p, std::int64_t row, float largest, Slice slice, float* sum) {
  float weights = 0.0f;
  bool first = true;
  std::fill_n(sum, slice.size, 0.0f);
  for (std::int64_t part = 0; part < p.num_parts; ++part) {
    const float lse = p.lse_parts[part * p.rows + row];
    if (lse == NegativeInfinity()) continue;
    const float weight = std::exp(lse - largest);
    if (weight == 0.0f) continue;
    weights += weight;
    Accumulate(weight, p.out_parts + (part * p.rows + row) * p.dim + slice.begin, slice.size, first,
               sum);
    first = false;
  }
  return weights;
}

void MergeRow(const MergeParams& p, std::int64_t row) {
  constexpr std::int64_t kSliceSize = 256;
  float sum[kSliceSize];
  const float largest = LargestLse(p, row);
  float weights = 0.0f;
  for (std::int64_t begin = 0; begin < p.dim; begin += kSliceSize) {
    const Slice slice = {begin, std::min(kSliceSize, p.dim - begin)};
    weights = SumParts(p, row, largest, slice, sum);
    for (std::int64_t d = 0; d < slice.size; ++d) {
      const float value = weights == 0.0f ? 0.0f : sum[d] / weights;
      StoreElement(p.out, p.out_dtype, row * p.dim + begin + d, value);
    }
  }
  if (p.lse != nullptr) {
    p.lse[row] = weights == 0.0f ? NegativeInfinity() : largest + std::log(weights);
  }
}

absl::Status RunMergeCpu(const MergeParams& p, const ExecutionContext& context) {
  const std::int64_t num_tasks = (p.rows - 1) / kRowsPerTask + 1;
  RunTasks(context.parallel_for, num_tasks, [&p](std::int64_t task) {
    const std::int64_t begin = task * kRowsPerTask;
    const std::int64_t end = begin + std::min(kRowsPerTask, p.rows - begin);
    for (std::int64_t row = begin; row < end; ++row) MergeRow(p, row);
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateMerge(const MergeParams& p) {
  if (p.num_parts < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_parts: ", p.num_parts, "; at least 1 is accepted"));
  }
  if (p.rows < 0) {
    return absl::InvalidArgumentError(absl::StrCat("rows: ", p.rows, "; at least 0 is accepted"));
  }
  if (p.dim < 1 || p.dim > kMaxMergeDim) {
    return absl::InvalidArgumentError(
        absl::StrCat("head_dim_v: ", p.dim, "; 1 to ", kMaxMergeDim, " is accepted"));
  }
  if (p.out_dtype > DataType::kBFloat16) {
    return absl::InvalidArgumentError(
        absl::StrCat("out_dtype: ", static_cast<int>(p.out_dtype), " is no data type"));
  }
  const std::int64_t bytes_per_row = p.dim * static_cast<std::int64_t>(sizeof(float));
  if (CheckedMultiply(CheckedMultiply(p.num_parts, p.rows), bytes_per_row) < 0) {
    return absl::InvalidArgumentError(absl::StrCat("rows: ", p.num_parts, " parts of ", p.rows,
                                                   " rows of ", p.dim,
                                                   " do not fit in 63 bits of bytes"));
  }
  return absl::OkStatus();
}

absl::Status RunMerge(const MergeParams& p, const ExecutionContext& context) {
  RETURN_IF_ERROR(ValidateMerge(p));
  if (p.rows == 0) return absl::OkStatus();
  return context.device.backend == Backend::kCuda ? RunMergeCuda(p, context)
                                                  : RunMergeCpu(p, context);
}

}  // namespace attnd
