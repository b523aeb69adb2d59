// The end of a tile: sinks, the division by l, and the stores of out and lse.
#pragma once

#include <cstdint>

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/sm80/tile_scores.cuh"
#include "kernels/cuda/sm80/tile_softmax.cuh"

namespace attnd::cuda::sm80 {

// A row's finished state: what its un-normalised output is multiplied by, and its log-sum-exp.
struct RowResult {
  float output_factor;  // 0 for a row that attends to nothing
  float lse;
};

// Closes a row with maximum m (in a unit that natural_factor turns into that of AttentionParams)
// and full denominator l, joined by `sink` (-inf: none).
__device__ __forceinline__ RowResult FinishRow(float m, float l, float natural_factor, float sink) {
  const bool empty = m == NegativeInfinity() && l == 0.0f;
  float shift = empty ? NegativeInfinity() : m * natural_factor;
  float factor = 1.0f;
  if (sink != NegativeInfinity()) {
    const float joined = fmaxf(shift, sink);
    factor = RescaleFactor(shift, joined);
    l = l * factor + expf(sink - joined);
    shift = joined;
  }
  if (l == 0.0f) return {0.0f, NegativeInfinity()};
  return {empty ? 0.0f : factor / l, shift + logf(l)};
}

// Divides a warp's rows by their denominators and stores their lse. `row` is the lane's first row.
template <int kFragmentsM, int kFragmentsV>
__device__ __forceinline__ void FinishRows(Accumulators<kFragmentsM, kFragmentsV>& out,
                                           const TileSoftmax<kFragmentsM>& softmax,
                                           const AttentionParams& p, const TileWork& work,
                                           float natural_factor, int row, int lane) {
  const float sink = p.sinks != nullptr ? p.sinks[work.head] : NegativeInfinity();
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const RowResult result =
          FinishRow(softmax.m[i][h], QuadSum(softmax.l[i][h]), natural_factor, sink);
      const int this_row = row + 16 * i + 8 * h;
      if (p.lse != nullptr && lane % 4 == 0 && this_row < work.bounds.seqlen_q)
        p.lse[LseOffset(p, work.bounds, work.head, this_row)] = result.lse;
#pragma unroll
      for (int j = 0; j < kFragmentsV; ++j) {
#pragma unroll
        for (int e = 2 * h; e < 2 * h + 2; ++e)
          // A selection: a row without keys is 0 even where a hidden, non-finite v of its tile made
          // 0 * inf of it.
          out.values[i][j][e] =
              result.output_factor == 0.0f ? 0.0f : out.values[i][j][e] * result.output_factor;
      }
    }
  }
}

// Stores one lane's share of a warp's rows to out in float32: two adjacent columns at a time.
template <int kFragmentsM, int kFragmentsV>
__device__ __forceinline__ void StoreFloat32(const Accumulators<kFragmentsM, kFragmentsV>& out,
                                             const AttentionParams& p, const TileWork& work,
                                             int first_row, int lane) {
  const SequenceBounds& s = work.bounds;
  float* const data = static_cast<float*>(p.out.data);
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = first_row + 16 * i + 8 * h;
      if (row >= s.seqlen_q) continue;
      const std::int64_t offset = RowOffset(p.out, s.q_batch, s.q_begin, row, work.head);
#pragma unroll
      for (int j = 0; j < kFragmentsV; ++j) {
        const int column = 8 * j + 2 * (lane % 4);
        if (column < p.head_dim_v)
          *reinterpret_cast<float2*>(data + offset + column) =
              make_float2(out.values[i][j][2 * h], out.values[i][j][2 * h + 1]);
      }
    }
  }
}

// Stores a warp's rows to out in kDtype, 16 bytes at a time, by way of the warp's own rows of
// `tile`, which no other warp uses: rows [tile_row, tile_row + 16 kFragmentsM) of the tile and of
// the block's rows.
template <DataType kDtype, int kHeadDim, int kFragmentsM>
__device__ __forceinline__ void StoreThroughShared(
    const Accumulators<kFragmentsM, kHeadDim / 8>& out, char* tile, int tile_row,
    const AttentionParams& p, const TileWork& work, int lane) {
  using Layout = TileLayout<kHeadDim>;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i)
#pragma unroll
    for (int j = 0; j < kHeadDim / 8; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = tile_row + 16 * i + 8 * h + lane / 4;
        *reinterpret_cast<std::uint32_t*>(tile + Layout::Offset(row, j) + 4 * (lane % 4)) =
            Element<kDtype>::Pack(out.values[i][j][2 * h], out.values[i][j][2 * h + 1]);
      }
  __syncwarp();
  const SequenceBounds& s = work.bounds;
  std::uint16_t* const data = static_cast<std::uint16_t*>(p.out.data);
#pragma unroll 4
  for (int index = lane; index < 16 * kFragmentsM * Layout::kChunks; index += 32) {
    const int row = tile_row + index / Layout::kChunks;
    const int chunk = index % Layout::kChunks;
    if (row >= work.valid_rows || chunk * 8 >= p.head_dim_v) continue;
    const std::int64_t offset =
        RowOffset(p.out, s.q_batch, s.q_begin, work.first_row + row, work.head);
    *reinterpret_cast<uint4*>(data + offset + chunk * 8) =
        *reinterpret_cast<const uint4*>(tile + Layout::Offset(row, chunk));
  }
}

}  // namespace attnd::cuda::sm80
