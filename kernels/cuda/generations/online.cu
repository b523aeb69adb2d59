// The third founding generation: one pass over the keys with a running maximum and sum. A warp owns
// a row; no score is ever stored.
#include "kernels/cuda/generations/generations.h"
#include "kernels/cuda/generations/warp_row.cuh"

namespace attnd::cuda {
namespace {

template <DataType kDtype, int kSlots>
__global__ void __launch_bounds__(32 * kWarpsPerBlock)
    OnlineKernel(const __grid_constant__ AttentionParams p, std::int64_t first_block) {
  ForWarpRow<kDtype, kSlots>(p, first_block, [&](const WarpRow<kDtype, kSlots>& row) {
    SoftmaxState state;
    LaneVector<kSlots> sum;
    for (std::int64_t key = row.scorer.keys.begin; key < row.scorer.keys.end; ++key) {
      if (!row.scorer.MaySee(key)) continue;
      float weight;
      const float factor = state.Update(row.Score(key), &weight);
      if (weight == 0.0f) continue;
      const LaneVector<kSlots> value = row.Value(key);
#pragma unroll
      for (int i = 0; i < kSlots; ++i)
        sum.values[i] = __fmaf_rn(weight, value.values[i], sum.values[i] * factor);
    }
    const float factor = p.sinks != nullptr ? state.AddSink(p.sinks[row.head]) : 1.0f;
    row.Store(sum, factor * state.InverseSum(), state.Lse());
  });
}

}  // namespace

cudaError_t LaunchOnline(const AttentionParams& p, cudaStream_t stream) {
  return DispatchWarpRows(p, [&]<DataType kDtype, int kSlots>() {
    return LaunchWarpRows(p, OnlineKernel<kDtype, kSlots>, stream);
  });
}

}  // namespace attnd::cuda
