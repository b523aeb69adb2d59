// What happens to a strip of scores between the two products: options, masks and the online
// softmax, for the Highway target being compiled. Rows of scores are kKeyTile floats apart and stay
// in the first-level cache.
#if defined(ATTND_KERNELS_CPU_TILE_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_CPU_TILE_SCORES_INL_H_
#undef ATTND_KERNELS_CPU_TILE_SCORES_INL_H_
#else
#define ATTND_KERNELS_CPU_TILE_SCORES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/attention_mask.h"
#include "kernels/cpu/fused_tile.h"
#include "kernels/cpu/lane_reduction-inl.h"
#include "kernels/cpu/tile_memory-inl.h"
#include "kernels/cpu/tile_products-inl.h"
#include "kernels/cpu/vector_math-inl.h"
#include "kernels/online_softmax.h"

HWY_BEFORE_NAMESPACE();
namespace attnd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// One packed row of a tile.
struct TileRow {
  std::int64_t row = 0;   // within the sequence
  std::int64_t head = 0;  // query head
  KeyRange keys;          // that the row sees of the tile's range; empty for a padding row
};

// Keys [begin, end) relative to a key tile's first key `first`; whole panels.
struct PanelSpan {
  std::int64_t first = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Whether scores need more than the scale before they are masked by range.
inline bool HasScoreOptions(const AttentionParams& p) {
  return p.softcap > 0 || p.bias.data || p.alibi_slopes || p.mask.data;
}

// Lanes(d) elements of a row of `row` that has `count` of them, from index `i` on, widened; past
// the end they are 0 and not read.
template <typename T>
HWY_INLINE hn::Vec<FloatTag> LoadClipped(FloatTag d, const T* row, std::int64_t i,
                                         std::int64_t count) {
  if (i + kLanes <= count) return LoadWidened(d, row + i);
  T lanes[kLanes] = {};
  if (i < count) std::memcpy(lanes, row + i, static_cast<std::size_t>(count - i) * sizeof(T));
  return LoadWidened(d, lanes);
}

inline hn::Vec<FloatTag> LoadBias(FloatTag d, const BiasView& bias, std::int64_t offset,
                                  std::int64_t i, std::int64_t count) {
  switch (bias.dtype) {
    case DataType::kFloat16:
      return LoadClipped(d, static_cast<const hwy::float16_t*>(bias.data) + offset, i, count);
    case DataType::kBFloat16:
      return LoadClipped(d, static_cast<const hwy::bfloat16_t*>(bias.data) + offset, i, count);
    default:
      return LoadClipped(d, static_cast<const float*>(bias.data) + offset, i, count);
  }
}

// The lanes of a boolean mask's row that may attend; past the end none may.
inline hn::Mask<FloatTag> LoadMask(FloatTag d, const std::uint8_t* row, std::int64_t i,
                                   std::int64_t count) {
  const hn::Rebind<std::uint8_t, FloatTag> d8;
  const hn::RebindToSigned<FloatTag> di;
  std::uint8_t lanes[kLanes] = {};
  if (i + kLanes <= count) {
    std::memcpy(lanes, row + i, kLanes);
  } else if (i < count) {
    std::memcpy(lanes, row + i, static_cast<std::size_t>(count - i));
  }
  return hn::RebindMask(d, hn::Ne(hn::PromoteTo(di, hn::LoadU(d8, lanes)), hn::Zero(di)));
}

// Takes scores of one row from softmax_scale * q.k to finished ones: softcap, bias, ALiBi, boolean
// mask.
inline void ApplyScoreOptions(const FusedTile& tile, const TileRow& row, const PanelSpan& span,
                              float* HWY_RESTRICT scores) {
  const AttentionParams& p = *tile.params;
  const FloatTag d;
  const std::int64_t count = tile.bounds.seqlen_k;
  const std::int64_t bias_offset = ScoreOffset(p.bias, tile.sequence, row.head, row.row);
  const std::int64_t mask_offset = ScoreOffset(p.mask, tile.sequence, row.head, row.row);
  const float slope =
      p.alibi_slopes ? p.alibi_slopes[tile.sequence * p.alibi_batch_stride + row.head] : 0.0f;
  const std::int64_t position = row.row + tile.bounds.seqlen_k - tile.bounds.seqlen_q;
  for (std::int64_t j = span.begin; j < span.end; j += kLanes) {
    const std::int64_t key = span.first + j;
    auto s = hn::Load(d, scores + j);
    if (p.softcap > 0) {
      const auto cap = hn::Set(d, p.softcap);
      s = hn::Mul(cap, Tanh(d, hn::Div(s, cap)));
    }
    if (p.bias.data) s = hn::Add(s, LoadBias(d, p.bias, bias_offset, key, count));
    if (p.alibi_slopes) {
      const auto distance =
          hn::Abs(hn::Sub(hn::Set(d, static_cast<float>(position - key)), hn::Iota(d, 0.0f)));
      s = hn::Sub(s, hn::Mul(hn::Set(d, slope), distance));
    }
    if (p.mask.data) {
      s = hn::IfThenElse(LoadMask(d, p.mask.data + mask_offset, key, count), s,
                         hn::Set(d, NegativeInfinity()));
    }
    hn::Store(s, d, scores + j);
  }
}

// Sets the scores of keys outside the row's range to -inf: chosen, never added, so that what was
// computed for them, NaN included, is gone.
inline void MaskOutsideRange(const TileRow& row, const PanelSpan& span,
                             float* HWY_RESTRICT scores) {
  const std::int64_t begin = row.keys.begin - span.first;
  const std::int64_t end = row.keys.end - span.first;
  if (begin <= span.begin && end >= span.end) return;
  const FloatTag d;
  for (std::int64_t j = span.begin; j < span.end; j += kLanes) {
    if (begin <= j && end >= j + kLanes) continue;
    // Both ends as lane numbers, clipped so that they are exact in float32.
    const auto first = hn::Set(
        d, static_cast<float>(HWY_MAX(HWY_MIN(begin - j, std::int64_t{kLanes}), std::int64_t{0})));
    const auto last = hn::Set(
        d, static_cast<float>(HWY_MAX(HWY_MIN(end - j, std::int64_t{kLanes}), std::int64_t{0})));
    const auto lane = hn::Iota(d, 0.0f);
    const auto seen = hn::And(hn::Ge(lane, first), hn::Lt(lane, last));
    hn::Store(hn::IfThenElse(seen, hn::Load(d, scores + j), hn::Set(d, NegativeInfinity())), d,
              scores + j);
  }
}

// Room for a value a row of a strip, in whole vectors of any target.
inline constexpr int kStripRoom = 16;

// Softmax state of a strip. `l` holds kLanes partial sums a row: lane i sums the keys that lane i
// of a vector held.
struct StripState {
  float* m;  // [kStripRoom]
  float* l;  // [kMaxRows][kLanes]
};

// Lane-wise maximum of one row of scores.
HWY_INLINE hn::Vec<FloatTag> LaneMax(const float* HWY_RESTRICT scores, const PanelSpan& span) {
  const FloatTag d;
  auto m0 = hn::Load(d, scores + span.begin);
  auto m1 = hn::Load(d, scores + span.begin + kLanes);
  for (std::int64_t j = span.begin + kWidth; j < span.end; j += kWidth) {
    m0 = hn::Max(m0, hn::Load(d, scores + j));
    m1 = hn::Max(m1, hn::Load(d, scores + j + kLanes));
  }
  return hn::Max(m0, m1);
}

// largest[r] = maximum of row r of scores for r < rows, -inf for the others of kStripRoom.
inline void RowMaxima(int rows, const PanelSpan& span, const float* HWY_RESTRICT scores,
                      float* HWY_RESTRICT largest) {
  const FloatTag d;
  const hn::CappedTag<float, 4> d4;
  for (int r = 0; r < kStripRoom; r += 4) {
    hn::Vec<FloatTag> m[4];
    for (int i = 0; i < 4; ++i) {
      m[i] = r + i < rows ? LaneMax(scores + (r + i) * kKeyTile, span)
                          : hn::Set(d, NegativeInfinity());
    }
    hn::Store(ReduceLanesOf4(d, m[0], m[1], m[2], m[3], MaxOp()), d4, largest + r);
  }
}

// scores = exp(scores - reference); returns the lane-wise sum of them.
inline hn::Vec<FloatTag> ExponentiateRow(float* HWY_RESTRICT scores, const PanelSpan& span,
                                         float reference) {
  const FloatTag d;
  const auto subtract = hn::Set(d, reference);
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  for (std::int64_t j = span.begin; j < span.end; j += kWidth) {
    const auto w0 = ExpOfNonPositive(d, hn::Sub(hn::Load(d, scores + j), subtract));
    const auto w1 = ExpOfNonPositive(d, hn::Sub(hn::Load(d, scores + j + kLanes), subtract));
    hn::Store(w0, d, scores + j);
    hn::Store(w1, d, scores + j + kLanes);
    sum0 = hn::Add(sum0, w0);
    sum1 = hn::Add(sum1, w1);
  }
  return hn::Add(sum0, sum1);
}

// Turns the scores of `rows` rows into weights and takes them into the running state
// (FlashAttention-2, algorithm 1, lines 8-9). factor[r], [kStripRoom], is what the row's
// un-normalised output must be multiplied by.
inline void SoftmaxStrip(int rows, const PanelSpan& span, const StripState& state,
                         float* HWY_RESTRICT scores, float* HWY_RESTRICT factor) {
  const FloatTag d;
  HWY_ALIGN float reference[kStripRoom];
  const auto lowest = hn::Set(d, NegativeInfinity());
  RowMaxima(rows, span, scores, reference);
  for (int r = 0; r < kStripRoom; r += kLanes) {
    const auto m_old = hn::Load(d, state.m + r);
    const auto m_new = hn::Max(m_old, hn::Load(d, reference + r));
    const auto shrink = ExpOfNonPositive(d, hn::Sub(m_old, m_new));
    hn::Store(m_new, d, state.m + r);
    hn::Store(hn::IfThenZeroElse(hn::Eq(m_old, lowest), shrink), d, factor + r);
    // The maximum stays true; only what is subtracted is finite, so that -inf - -inf does not
    // arise.
    hn::Store(hn::IfThenZeroElse(hn::Eq(m_new, lowest), m_new), d, reference + r);
  }
  for (int r = 0; r < rows; ++r) {
    const auto sum = ExponentiateRow(scores + r * kKeyTile, span, reference[r]);
    float* l = state.l + std::ptrdiff_t{r} * kLanes;
    hn::Store(hn::MulAdd(hn::Load(d, l), hn::Set(d, factor[r]), sum), d, l);
  }
}

}  // namespace attnd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
