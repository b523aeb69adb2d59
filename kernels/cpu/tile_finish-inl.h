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
#include <cmath>
#include <cstdint>

#include "kernels/cpu/fused_tile.h"
#include "kernels/cpu/tile_memory-inl.h"
#include "kernels/cpu/vector_math-inl.h"
#include "kernels/online_softmax.h"

HWY_BEFORE_NAMESPACE();
namespace attnd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// A row's finished state over all keys; `out` is un-normalised.
struct RowState {
  float m;
  float l;
  float* out;  // [head_dim_v]
};

// Takes the sink into `state` as one more score without a value.
inline void AddSink(float sink, std::int64_t dim, RowState* state) {
  const float sink_log2 = sink * kLog2E;
  const float m = std::max(state->m, sink_log2);
  if (m == NegativeInfinity()) return;
  const float factor = std::exp2(state->m - m);
  state->l = state->l * factor + std::exp2(sink_log2 - m);
  state->m = m;
  for (std::int64_t x = 0; x < dim; ++x) state->out[x] *= factor;
}

template <typename Out>
void StoreRow(const RowState& state, std::int64_t dim, Out* out) {
  const hn::CappedTag<float, 8> d;
  const auto factor = hn::Set(d, state.l == 0.0f ? 0.0f : 1.0f / state.l);
  for (std::int64_t x = 0; x < dim; x += static_cast<std::int64_t>(hn::MaxLanes(d))) {
    StoreNarrowed(d, hn::Mul(hn::LoadU(d, state.out + x), factor), out + x);
  }
}

// Writes out and lse of query row `row` of `head`.
inline void FinishRow(const FusedTile& tile, std::int64_t row, std::int64_t head, RowState state) {
  const AttentionParams& p = *tile.params;
  const bool in_use = row < tile.bounds.seqlen_q;
  const bool saw_nothing = state.l == 0.0f;
  if (p.sinks && in_use) AddSink(p.sinks[head], p.head_dim_v, &state);
  if (p.lse) {
    float lse = NegativeInfinity();
    if (!saw_nothing) {
      lse = static_cast<float>(state.m * 0.69314718055994531 +
                               std::log(static_cast<double>(state.l)));
    } else if (p.sinks && in_use) {
      lse = p.sinks[head];  // itself: the way through log2 would round it
    }
    p.lse[LseOffset(p, tile.bounds, head, row)] = lse;
  }
  const std::int64_t offset = RowOffset(p.out, tile.bounds.q_batch, tile.bounds.q_begin, row, head);
  switch (p.out.dtype) {
    case DataType::kFloat16:
      return StoreRow(state, p.head_dim_v, static_cast<hwy::float16_t*>(p.out.data) + offset);
    case DataType::kBFloat16:
      return StoreRow(state, p.head_dim_v, static_cast<hwy::bfloat16_t*>(p.out.data) + offset);
    case DataType::kFloat32:
      return StoreRow(state, p.head_dim_v, static_cast<float*>(p.out.data) + offset);
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
    const float weight = state.m[i] == NegativeInfinity() ? 0.0f : std::exp2(state.m[i] - m);
    const float* from = state.out + i * dim;
    l += weight * state.l[i];
    for (std::int64_t x = 0; x < dim; ++x)
      out[x] = part == 0 ? weight * from[x] : out[x] + weight * from[x];
  }
  const std::int64_t group = p.num_heads / p.num_kv_heads;
  const std::int64_t packed_row = tile.row_begin + i;
  FinishRow(tile, packed_row / group, tile.kv_head * group + packed_row % group, {m, l, out});
}

}  // namespace attnd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
