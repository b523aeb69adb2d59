// The second founding generation: one kernel, two passes over the keys. The first finds a row's
// maximum and sum, the second computes every score again and adds the finished weight times the
// value. A warp owns a row; no score is ever stored.
#include "kernels/cuda/generations/generations.h"
#include "kernels/cuda/generations/warp_row.cuh"

namespace attnd::cuda {
namespace {

// Pass 1: the maximum and the sum of a row, its sink included.
template <typename Row>
__device__ __forceinline__ SoftmaxState MaximumAndSum(const Row& row) {
  SoftmaxState state;
  for (std::int64_t key = row.scorer.keys.begin; key < row.scorer.keys.end; ++key) {
    float weight;
    if (row.scorer.MaySee(key)) state.Update(row.Score(key), &weight);
  }
  if (row.p.sinks != nullptr) state.AddSink(row.p.sinks[row.head]);
  return state;
}

template <DataType kDtype, int kSlots>
__global__ void __launch_bounds__(32 * kWarpsPerBlock)
    TwoPassKernel(const __grid_constant__ AttentionParams p, std::int64_t first_block) {
  ForWarpRow<kDtype, kSlots>(p, first_block, [&](const WarpRow<kDtype, kSlots>& row) {
    const SoftmaxState state = MaximumAndSum(row);
    const float inverse = state.InverseSum();
    LaneVector<kSlots> sum;
    for (std::int64_t key = row.scorer.keys.begin; key < row.scorer.keys.end; ++key) {
      if (!row.scorer.MaySee(key)) continue;
      const float score = row.Score(key);
      // -inf minus a maximum of -inf is no number; such a key has no weight.
      const float weight = score == NegativeInfinity() ? 0.0f : expf(score - state.m) * inverse;
      if (weight == 0.0f) continue;
      const LaneVector<kSlots> value = row.Value(key);
#pragma unroll
      for (int i = 0; i < kSlots; ++i)
        sum.values[i] = __fmaf_rn(weight, value.values[i], sum.values[i]);
    }
    row.Store(sum, 1.0f, state.Lse());
  });
}

}  // namespace

cudaError_t LaunchTwoPass(const AttentionParams& p, cudaStream_t stream) {
  return DispatchWarpRows(p, [&]<DataType kDtype, int kSlots>() {
    return LaunchWarpRows(p, TwoPassKernel<kDtype, kSlots>, stream);
  });
}

}  // namespace attnd::cuda
