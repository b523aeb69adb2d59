// One query row looked at by one warp, its dimensions spread over the lanes.
#pragma once

#include <cstdint>

#include "kernels/attention_score.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/grid.cuh"

namespace attnd::cuda {

inline constexpr int kWarpsPerBlock = 4;
inline constexpr int kMaxHeadDim = 256;

// A row of up to 32 kSlots elements, in float32. Slot i of a lane is element 32 i + lane; slots
// past the row are 0.
template <int kSlots>
struct LaneVector {
  float values[kSlots] = {};
};

template <DataType kDtype, int kSlots>
__device__ __forceinline__ LaneVector<kSlots> LoadRow(const void* data, std::int64_t offset,
                                                      std::int64_t dim) {
  const auto* const row = static_cast<const typename Element<kDtype>::Storage*>(data) + offset;
  const int lane = threadIdx.x % 32;
  LaneVector<kSlots> vector;
#pragma unroll
  for (int i = 0; i < kSlots; ++i)
    if (32 * i + lane < dim) vector.values[i] = Element<kDtype>::ToFloat(row[32 * i + lane]);
  return vector;
}

// The dot product, in every lane.
template <int kSlots>
__device__ __forceinline__ float Dot(const LaneVector<kSlots>& a, const LaneVector<kSlots>& b) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < kSlots; ++i) sum = __fmaf_rn(a.values[i], b.values[i], sum);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  return sum;
}

// The query row of a warp and its scores.
template <DataType kDtype, int kSlots>
struct WarpRow {
  const AttentionParams& p;
  SequenceBounds bounds;
  std::int64_t b;
  std::int64_t head;
  std::int64_t row;
  RowScorer scorer;
  LaneVector<kSlots> q;
  std::int64_t k_offset;  // of key 0 of this head

  // Row number `index` of the problem: rows of the longest sequence, heads, sequences, the first
  // fastest.
  __device__ __forceinline__ WarpRow(const AttentionParams& params, std::int64_t index)
      : p(params) {
    row = index % p.seqlen_q;
    head = index / p.seqlen_q % p.num_heads;
    b = index / p.seqlen_q / p.num_heads;
    bounds = BoundsOf(p, b);
  }

  __device__ __forceinline__ void Load() {
    scorer = MakeRowScorer(p, bounds, b, head, row);
    q = LoadRow<kDtype, kSlots>(p.q.data, RowOffset(p.q, bounds.q_batch, bounds.q_begin, row, head),
                                p.head_dim);
    const std::int64_t kv_head = KvHeadOf(p, head);
    k_offset = RowOffset(p.k, bounds.k_batch, bounds.k_begin, 0, kv_head);
  }

  __device__ __forceinline__ float Score(std::int64_t key) const {
    return scorer.Score(
        Dot(q, LoadRow<kDtype, kSlots>(p.k.data, k_offset + key * p.k.seq_stride, p.head_dim)),
        key);
  }
};

// Calls launch.template operator()<dtype, slots>() for the dtype and the wider head dimension of
// `p`.
template <typename Launch>
cudaError_t DispatchWarpRows(const AttentionParams& p, Launch launch) {
  const auto by_dim = [&]<DataType kDtype>() {
    const std::int64_t dim = p.head_dim > p.head_dim_v ? p.head_dim : p.head_dim_v;
    if (dim <= 64) return launch.template operator()<kDtype, 2>();
    if (dim <= 128) return launch.template operator()<kDtype, 4>();
    return launch.template operator()<kDtype, kMaxHeadDim / 32>();
  };
  switch (p.q.dtype) {
    case DataType::kFloat16:
      return by_dim.template operator()<DataType::kFloat16>();
    case DataType::kBFloat16:
      return by_dim.template operator()<DataType::kBFloat16>();
    default:
      return by_dim.template operator()<DataType::kFloat32>();
  }
}

}  // namespace attnd::cuda
