#include "kernels/cuda/element.cuh"
#include "kernels/cuda/grid.cuh"
#include "kernels/cuda/merge/merge.h"
#include "kernels/online_softmax.h"

namespace attnd::cuda {
namespace {

constexpr int kRowsPerBlock = 4;

// The largest lse of a row's parts; -inf if all are empty. NaN is no maximum: it enters through its
// weight.
__device__ float LargestLse(const MergeParams& p, std::int64_t row) {
  float largest = NegativeInfinity();
  for (std::int64_t part = 0; part < p.num_parts; ++part)
    largest = fmaxf(largest, p.lse_parts[part * p.rows + row]);
  return largest;
}

// Column `column` of a merged row and the sum of the weights, part by part. The first part is
// assigned, so that a single part keeps its bits, the sign of a zero included; parts of weight 0
// are not read.
struct WeightedSum {
  float value = 0.0f;
  float weights = 0.0f;
};

__device__ WeightedSum SumParts(const MergeParams& p, std::int64_t row, float largest,
                                std::int64_t column) {
  WeightedSum sum;
  bool first = true;
  for (std::int64_t part = 0; part < p.num_parts; ++part) {
    const float lse = p.lse_parts[part * p.rows + row];
    const float weight = lse == NegativeInfinity() ? 0.0f : expf(lse - largest);
    if (weight == 0.0f) continue;
    const float term = weight * p.out_parts[(part * p.rows + row) * p.dim + column];
    sum.value = first ? term : sum.value + term;
    sum.weights += weight;
    first = false;
  }
  return sum;
}

// One warp a row, its lanes over the columns; every lane forms the same sum of weights.
__global__ void __launch_bounds__(32 * kRowsPerBlock)
    MergeKernel(const __grid_constant__ MergeParams p, std::int64_t first_block) {
  const std::int64_t row = (first_block + blockIdx.x) * kRowsPerBlock + threadIdx.x / 32;
  if (row >= p.rows) return;
  const int lane = threadIdx.x % 32;
  const float largest = LargestLse(p, row);
  for (std::int64_t column = lane; column < p.dim; column += 32) {
    const WeightedSum sum = SumParts(p, row, largest, column);
    StoreFromFloat(p.out, p.out_dtype, row * p.dim + column,
                   sum.weights == 0.0f ? 0.0f : sum.value / sum.weights);
    if (column == 0 && p.lse != nullptr)
      p.lse[row] = sum.weights == 0.0f ? NegativeInfinity() : largest + logf(sum.weights);
  }
}

}  // namespace

cudaError_t LaunchMerge(const MergeParams& p, cudaStream_t stream) {
  const std::int64_t total = (p.rows + kRowsPerBlock - 1) / kRowsPerBlock;
  return LaunchInRanges(total, [&](unsigned blocks, std::int64_t first) {
    MergeKernel<<<blocks, 32 * kRowsPerBlock, 0, stream>>>(p, first);
  });
}

}  // namespace attnd::cuda
