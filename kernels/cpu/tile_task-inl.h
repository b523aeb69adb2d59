// One task, top to bottom: scores, options, masks, online softmax and values of a tile, for the
// Highway target being compiled.
#if defined(ATTND_KERNELS_CPU_TILE_TASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_CPU_TILE_TASK_INL_H_
#undef ATTND_KERNELS_CPU_TILE_TASK_INL_H_
#else
#define ATTND_KERNELS_CPU_TILE_TASK_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/attention_mask.h"
#include "kernels/cpu/direct_products-inl.h"
#include "kernels/cpu/fused_tile.h"
#include "kernels/cpu/mask_range.h"
#include "kernels/cpu/tile_finish-inl.h"
#include "kernels/cpu/tile_memory-inl.h"
#include "kernels/cpu/tile_products-inl.h"
#include "kernels/cpu/tile_scores-inl.h"
#include "kernels/cpu/tile_scratch-inl.h"
#include "kernels/online_softmax.h"

HWY_BEFORE_NAMESPACE();
namespace attnd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

static_assert(kStripRows % kMaxRows == 0 && kKeyTile % kWidth == 0 && kMaxRows <= kStripRoom &&
              kDirectKeyTile % kWidth == 0 && kKeyTile % kDirectKeyTile == 0);

// The smallest range that covers the non-empty ones of `rows`.
inline KeyRange UnionOf(const TileRow* rows, std::int64_t num_rows) {
  KeyRange all{INT64_MAX, 0};
  for (std::int64_t i = 0; i < num_rows; ++i) {
    if (rows[i].keys.begin == rows[i].keys.end) continue;
    all.begin = std::min(all.begin, rows[i].keys.begin);
    all.end = std::max(all.end, rows[i].keys.end);
  }
  return all.end == 0 ? KeyRange{} : all;
}

// The part of `keys` in the key tile that begins at `first`, in whole panels; empty where begin >=
// end.
inline PanelSpan SpanIn(const KeyRange& keys, std::int64_t first, std::int64_t key_tile) {
  const std::int64_t begin = std::max(keys.begin - first, std::int64_t{0});
  const std::int64_t end = std::min(keys.end - first, key_tile);
  if (begin >= end) return {first, 0, 0};
  return {first, begin / kWidth * kWidth, RoundUp(end, kWidth)};
}

// Works on one tile, T being the element type of q, k and v.
template <typename T>
class TileTask {
 public:
  explicit TileTask(const FusedTile& tile)
      : tile_(tile),
        p_(*tile.params),
        num_rows_(tile.row_end - tile.row_begin),
        has_options_(HasScoreOptions(p_)),
        direct_(tile.few_rows && p_.head_dim % kLanes == 0 && p_.head_dim_v % kWidth == 0),
        key_tile_(direct_ ? kDirectKeyTile : kKeyTile),
        scratch_(num_rows_, p_.head_dim, p_.head_dim_v, !direct_) {
    DescribeRows();
  }

  // Computes the state of all rows.
  void Run() {
    const KeyRange keys = UnionOf(rows_, num_rows_);
    InitState();
    if (keys.begin == keys.end) return;
    LoadQueries();
    for (std::int64_t first = keys.begin / key_tile_ * key_tile_; first < keys.end;
         first += key_tile_) {
      const KeyRange seen = p_.mask.data == nullptr ? keys : LookAtMask(first);
      if (seen.begin == seen.end) continue;
      if (!direct_) PackKeyTile(seen, first);
      for (std::int64_t strip = 0; strip < scratch_.num_strips; ++strip) AttendStrip(strip, first);
    }
  }

  void CopyState(const PartialState& to) const {
    for (std::int64_t i = 0; i < num_rows_; ++i) {
      to.m[i] = *RowM(i);
      to.l[i] = RowL(i);
      std::memcpy(to.out + i * p_.head_dim_v, scratch_.out + i * scratch_.out_stride,
                  static_cast<std::size_t>(p_.head_dim_v) * sizeof(float));
    }
  }

  void Finish() const {
    for (std::int64_t i = 0; i < num_rows_; ++i) {
      FinishRow(tile_, rows_[i].row, rows_[i].head, {*RowM(i), RowL(i)},
                scratch_.out + i * scratch_.out_stride);
    }
  }

 private:
  void DescribeRows() {
    const std::int64_t group = p_.num_heads / p_.num_kv_heads;
    for (std::int64_t i = 0; i < num_rows_; ++i) {
      TileRow& row = rows_[i];
      row.row = (tile_.row_begin + i) / group;
      row.head = tile_.kv_head * group + (tile_.row_begin + i) % group;
      if (row.row >= tile_.bounds.seqlen_q) continue;
      const KeyRange seen = VisibleKeys(row.row, tile_.bounds.seqlen_q, tile_.bounds.seqlen_k,
                                        p_.causal, p_.window_left, p_.window_right);
      row.keys = {std::max(seen.begin, tile_.key_begin), std::min(seen.end, tile_.key_end)};
      if (row.keys.begin >= row.keys.end) row.keys = {};
    }
    std::copy_n(rows_, num_rows_, seen_);
  }

  // Narrows what the rows see of the key tile at `first` to what the mask leaves of it; returns
  // what any of them sees. To pass over keys whose scores would all be -inf changes no bit.
  KeyRange LookAtMask(std::int64_t first) {
    for (std::int64_t i = 0; i < num_rows_; ++i) {
      const TileRow& row = rows_[i];
      const KeyRange keys{std::max(row.keys.begin, first),
                          std::min(row.keys.end, first + key_tile_)};
      const std::int64_t offset = ScoreOffset(p_.mask, tile_.sequence, row.head, row.row);
      seen_[i].keys = keys.begin < keys.end ? AllowedPart(p_.mask.data + offset, keys) : KeyRange{};
    }
    return UnionOf(seen_, num_rows_);
  }

  void InitState() {
    const std::int64_t rows = scratch_.num_strips * kMaxRows;
    std::fill_n(scratch_.m, scratch_.num_strips * kStripRoom, NegativeInfinity());
    std::fill_n(scratch_.l, rows * kLanes, 0.0f);
    std::fill_n(scratch_.out, rows * scratch_.out_stride, 0.0f);
  }

  const T* KeyAt(std::int64_t key) const {
    return static_cast<const T*>(p_.k.data) +
           RowOffset(p_.k, tile_.bounds.k_batch, tile_.bounds.k_begin, key, tile_.kv_head);
  }

  const T* ValueAt(std::int64_t key) const {
    return static_cast<const T*>(p_.v.data) +
           RowOffset(p_.v, tile_.bounds.k_batch, tile_.bounds.k_begin, key, tile_.kv_head);
  }

  // Widens q into scratch; rows that see nothing, and those past the last, are 0.
  void LoadQueries() {
    std::fill_n(scratch_.q, scratch_.num_strips * kMaxRows * p_.head_dim, 0.0f);
    HWY_ALIGN float lanes[kStripRoom];
    const hn::CappedTag<float, 8> d;
    constexpr std::int64_t kStep = hn::MaxLanes(decltype(d)());
    const std::int64_t column_stride = direct_ ? 1 : kMaxRows;
    for (std::int64_t i = 0; i < num_rows_; ++i) {
      if (rows_[i].keys.begin == rows_[i].keys.end) continue;
      const T* from =
          static_cast<const T*>(p_.q.data) +
          RowOffset(p_.q, tile_.bounds.q_batch, tile_.bounds.q_begin, rows_[i].row, rows_[i].head);
      float* to = scratch_.q + i / kMaxRows * kMaxRows * p_.head_dim +
                  i % kMaxRows * (direct_ ? p_.head_dim : 1);
      for (std::int64_t x = 0; x < p_.head_dim; x += kStep) {
        hn::Store(LoadWidened(d, from + x), d, lanes);
        for (std::int64_t y = 0; y < kStep; ++y) to[(x + y) * column_stride] = lanes[y];
      }
    }
  }

  // Packs what the tile's rows see of the key tile at `first`, and notes whether its values are
  // finite.
  void PackKeyTile(const KeyRange& keys, std::int64_t first) {
    const PanelSpan span = SpanIn(keys, first, key_tile_);
    const std::int64_t num_keys = std::min(keys.end - first, span.end) - span.begin;
    PackKeys<kWidth>(KeyAt(first + span.begin), p_.k.seq_stride, num_keys, p_.head_dim,
                     scratch_.k + span.begin * p_.head_dim);
    packed_values_finite_ = PackValues<kWidth, kKeyTile>(
        ValueAt(first + span.begin), p_.v.seq_stride, num_keys, span.end - span.begin,
        p_.head_dim_v, scratch_.v + span.begin * kWidth);
  }

  // Takes the key tile at `first` into the state of a strip of rows.
  void AttendStrip(std::int64_t strip, std::int64_t first) {
    const std::int64_t row0 = strip * kMaxRows;
    const int rows = static_cast<int>(std::min<std::int64_t>(kMaxRows, num_rows_ - row0));
    const KeyRange keys = UnionOf(seen_ + row0, rows);
    const PanelSpan span = SpanIn(keys, first, key_tile_);
    if (span.begin >= span.end) return;
    // The keys that some row of the strip sees; the span around them is what is masked.
    const std::int64_t key_begin = std::max(keys.begin - first, std::int64_t{0});
    const std::int64_t key_end = std::min(keys.end - first, key_tile_);
    ComputeScores(strip, rows, span, key_end);
    for (int r = 0; r < rows; ++r) {
      float* scores = scratch_.scores + r * kKeyTile;
      if (has_options_) ApplyScoreOptions(tile_, seen_[row0 + r], span, scores);
      MaskOutsideRange(seen_[row0 + r], span, scores);
    }
    HWY_ALIGN float factor[kStripRoom];
    SoftmaxStrip(rows, span, {scratch_.m + strip * kStripRoom, scratch_.l + row0 * kLanes},
                 scratch_.scores, factor);
    if (direct_) {
      AddValues(strip, rows, key_begin, key_end, factor,
                ValueRows<T>{ValueAt(first + key_begin), p_.v.seq_stride, kWidth,
                             ValuesAreSafe(strip, rows, first + key_begin, first + key_end)});
    } else {
      AddValues(strip, rows, key_begin, key_end, factor,
                ValueRows<float>{scratch_.v + key_begin * kWidth, kWidth, kKeyTile * kWidth,
                                 packed_values_finite_});
    }
  }

  void ComputeScores(std::int64_t strip, int rows, const PanelSpan& span, std::int64_t key_end) {
    const float scale = p_.softmax_scale;
    const float* q = scratch_.q + strip * kMaxRows * p_.head_dim;
    if (direct_) {
      const KeyValueRows<T> from{KeyAt(span.first), p_.k.seq_stride, ValueAt(span.first),
                                 p_.v.seq_stride, tile_.key_end - span.first};
      return ScoreTileDirectly(rows, q, from, span.begin, key_end, p_.head_dim, p_.head_dim_v,
                               scale, scratch_.scores);
    }
    WithRows(rows, [&](auto rows_constant) HWY_ATTR {
      for (std::int64_t j = span.begin; j < span.end; j += kWidth) {
        ScorePanel<rows_constant()>(q, scratch_.k + j * p_.head_dim, p_.head_dim, scale,
                                    scratch_.scores + j);
      }
    });
  }

  // Whether a weight of 0 may be multiplied by the values of keys [begin, end): they are finite, or
  // every row of the strip sees all of them.
  bool ValuesAreSafe(std::int64_t strip, int rows, std::int64_t begin, std::int64_t end) const {
    bool all_seen = !has_options_;
    for (int r = 0; r < rows; ++r) {
      const KeyRange& keys = seen_[strip * kMaxRows + r].keys;
      all_seen = all_seen && keys.begin <= begin && keys.end >= end;
    }
    return all_seen || AllFinite(ValueAt(begin), p_.v.seq_stride, end - begin, p_.head_dim_v);
  }

  // Rows of values: element x of key j is at data[j * key_stride + x / kWidth * panel_stride +
  // x % kWidth].
  template <typename Element>
  struct ValueRows {
    const Element* data;
    std::int64_t key_stride;
    std::int64_t panel_stride;
    bool safe;  // to be multiplied by weights of 0
  };

  // Adds keys [begin, end) of the key tile, weighted, to the strip's output; `values` begins at
  // `begin`.
  template <typename Element>
  void AddValues(std::int64_t strip, int rows, std::int64_t begin, std::int64_t end,
                 const float* factor, const ValueRows<Element>& values) {
    float* out = scratch_.out + strip * kMaxRows * scratch_.out_stride;
    const float* weights = scratch_.scores + begin;
    const Element* v = values.data;
    for (std::int64_t x = 0; x < scratch_.out_stride; x += kWidth, v += values.panel_stride) {
      if (values.safe) {
        WithRows(rows, [&](auto rows_constant) HWY_ATTR {
          ValuePanel<rows_constant()>(weights, v, values.key_stride, end - begin, factor, out + x,
                                      scratch_.out_stride);
        });
      } else {
        for (int r = 0; r < rows; ++r) {
          ValuePanelOfSeenKeys(weights + r * kKeyTile, v, values.key_stride, end - begin, factor[r],
                               out + r * scratch_.out_stride + x);
        }
      }
    }
  }

  float* RowM(std::int64_t i) const {
    return scratch_.m + i / kMaxRows * kStripRoom + i % kMaxRows;
  }

  float RowL(std::int64_t i) const {
    const FloatTag d;
    return hn::GetLane(hn::SumOfLanes(d, hn::Load(d, scratch_.l + i * kLanes)));
  }

  const FusedTile& tile_;
  const AttentionParams& p_;
  const std::int64_t num_rows_;
  const bool has_options_;
  const bool direct_;            // reads k and v where they lie
  const std::int64_t key_tile_;  // keys worked on at a time
  const Scratch scratch_;
  bool packed_values_finite_ = true;
  TileRow rows_[kMaxTileRows];
  TileRow seen_[kMaxTileRows];  // the same rows; of the key tile at hand, what they see of it
};

}  // namespace attnd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
