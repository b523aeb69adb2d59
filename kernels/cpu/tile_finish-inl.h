// From a row's softmax state to its out and lse, and merging states, for the Highway target being
// compiled.
#if defined(ATTND_KERNELS_CPU_TILE_FINISH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_CPU_TILE_FINISH_INL_H_
#undef ATTND_KERNELS_CPU_TILE_FINISH_INL_H_
#else
#define ATTND_KERNELS_CPU_TILE_FINISH_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/fused_tile.h"
#include "kernels/cpu/tile_memory-inl.h"
#include "kernels/online_softmax.h"

HWY_BEFORE_NAMESPACE();
namespace attnd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// out = factor * sum in out's type; `dim` elements.
template <typename Out>
void StoreRow(const float* sum, float factor, std::int64_t dim, Out* out) {
  const hn::CappedTag<float, 8> d;
  const auto f = hn::Set(d, factor);
  for (std::int64_t x = 0; x < dim; x += static_cast<std::int64_t>(hn::MaxLanes(d))) {
    StoreNarrowed(d, hn::Mul(hn::LoadU(d, sum + x), f), out + x);
  }
}

// Writes out and lse of query row `row` of `head` from its state over all keys; `sum`,
// [head_dim_v], is the un-normalised output.
inline void FinishRow(const FusedTile& tile, std::int64_t row, std::int64_t head,
                      SoftmaxState softmax, const float* sum) {
  const AttentionParams& p = *tile.params;
  const bool in_use = row < tile.bounds.seqlen_q;
  const float shrink = p.sinks && in_use ? softmax.AddSink(p.sinks[head]) : 1.0f;
  if (p.lse) p.lse[LseOffset(p, tile.bounds, head, row)] = softmax.Lse();
  const float factor = shrink * softmax.InverseSum();
  const std::int64_t offset = RowOffset(p.out, tile.bounds.q_batch, tile.bounds.q_begin, row, head);
  switch (p.out.dtype) {
    case DataType::kFloat16:
      return StoreRow(sum, factor, p.head_dim_v, static_cast<hwy::float16_t*>(p.out.data) + offset);
    case DataType::kBFloat16:
      return StoreRow(sum, factor, p.head_dim_v,
                      static_cast<hwy::bfloat16_t*>(p.out.data) + offset);
    case DataType::kFloat32:
      return StoreRow(sum, factor, p.head_dim_v, static_cast<float*>(p.out.data) + offset);
  }
}

// Merges row `i` of the parts into the first one's memory and finishes it.
inline void MergeRow(const FusedTile& tile, std::int64_t i, float* parts, std::int64_t num_parts,
                     std::int64_t part_floats) {
  const AttentionParams& p = *tile.params;
  const std::int64_t rows = tile.row_end - tile.row_begin;
  const std::int64_t dim = p.head_dim_v;
  float m = NegativeInfinity();
  for (std::int64_t part = 0; part < num_parts; ++part) {
    m = std::max(m, PartialStateAt(parts + part * part_floats, rows).m[i]);
  }
  float* out = PartialStateAt(parts, rows).out + i * dim;
  float l = 0.0f;
  for (std::int64_t part = 0; part < num_parts; ++part) {
    const PartialState state = PartialStateAt(parts + part * part_floats, rows);
    const float weight = RescaleFactor(state.m[i], m);
    const float* from = state.out + i * dim;
    l += weight * state.l[i];
    for (std::int64_t x = 0; x < dim; ++x)
      out[x] = part == 0 ? weight * from[x] : out[x] + weight * from[x];
  }
  const std::int64_t group = p.num_heads / p.num_kv_heads;
  const std::int64_t packed_row = tile.row_begin + i;
  FinishRow(tile, packed_row / group, tile.kv_head * group + packed_row % group, {m, l}, out);
}

}  // namespace attnd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
