// Scores of few query rows straight from k, for the Highway target being compiled: with few rows,
// packing a key tile costs more than it saves.
#if defined(ATTND_KERNELS_CPU_DIRECT_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_CPU_DIRECT_PRODUCTS_INL_H_
#undef ATTND_KERNELS_CPU_DIRECT_PRODUCTS_INL_H_
#else
#define ATTND_KERNELS_CPU_DIRECT_PRODUCTS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstdint>

#include "kernels/cpu/fused_tile.h"
#include "kernels/cpu/lane_reduction-inl.h"
#include "kernels/cpu/tile_memory-inl.h"
#include "kernels/cpu/tile_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Keys whose scores are computed together: their lane sums share the shuffles of ReduceLanesOf4.
inline constexpr int kDirectKeys = 4;
// How many keys ahead k and v are fetched. Their rows may lie pages apart, where the hardware does
// not look ahead.
inline constexpr std::int64_t kPrefetchKeys = 16;
// Keys worked on at a time, few enough that what was fetched ahead is still in the first-level
// cache when it is used.
inline constexpr std::int64_t kDirectKeyTile = 32;

// scores[r][i] = scale * q[r] . keys[i] for r < kRows and i < kDirectKeys.
// q: [kRows][dim]; keys: kDirectKeys rows of `dim` elements, a multiple of kLanes; scores: rows
// kKeyTile floats apart.
template <int kRows, typename T>
HWY_INLINE void ScoreKeys(const float* HWY_RESTRICT q, const T* const* keys, std::int64_t dim,
                          float scale, float* HWY_RESTRICT scores) {
  const FloatTag d;
  hn::Vec<FloatTag> sum[kRows][kDirectKeys];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = sum[r][2] = sum[r][3] = hn::Zero(d);
  for (std::int64_t x = 0; x < dim; x += kLanes) {
    const auto k0 = LoadWidened(d, keys[0] + x);
    const auto k1 = LoadWidened(d, keys[1] + x);
    const auto k2 = LoadWidened(d, keys[2] + x);
    const auto k3 = LoadWidened(d, keys[3] + x);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const auto qr = hn::Load(d, q + r * dim + x);
      sum[r][0] = hn::MulAdd(qr, k0, sum[r][0]);
      sum[r][1] = hn::MulAdd(qr, k1, sum[r][1]);
      sum[r][2] = hn::MulAdd(qr, k2, sum[r][2]);
      sum[r][3] = hn::MulAdd(qr, k3, sum[r][3]);
    }
  }
  const hn::CappedTag<float, 4> d4;
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const auto sums = ReduceLanesOf4(d, sum[r][0], sum[r][1], sum[r][2], sum[r][3], AddOp());
    hn::Store(hn::Mul(sums, hn::Set(d4, scale)), d4, scores + r * kKeyTile);
  }
}

// ScoreKeys for any number of rows. At most 4 share the loads of kDirectKeys keys: 16 sums.
template <typename T>
HWY_INLINE void ScoreKeysOfRows(int rows, const float* HWY_RESTRICT q, const T* const* keys,
                                std::int64_t dim, float scale, float* HWY_RESTRICT scores) {
  int r = 0;
  for (; r + 4 <= rows; r += 4) ScoreKeys<4>(q + r * dim, keys, dim, scale, scores + r * kKeyTile);
  if (r + 2 <= rows) {
    ScoreKeys<2>(q + r * dim, keys, dim, scale, scores + r * kKeyTile);
    r += 2;
  }
  if (r < rows) ScoreKeys<1>(q + r * dim, keys, dim, scale, scores + r * kKeyTile);
}

// Asks for the cache lines of `num_elements` elements from `p` on.
template <typename T>
HWY_INLINE void PrefetchRow(const T* p, std::int64_t num_elements) {
  constexpr std::int64_t kStep = 64 / static_cast<std::int64_t>(sizeof(T));
  for (std::int64_t x = 0; x < num_elements; x += kStep) hwy::Prefetch(p + x);
}

// Rows of k and v of one head, from the first key of a key tile on.
template <typename T>
struct KeyValueRows {
  const T* k;
  std::int64_t k_stride;
  const T* v;
  std::int64_t v_stride;
  std::int64_t num_readable;  // rows that there are; may be more than the tile's
};

// Scores of keys [begin, end) of a key tile; `begin` is a multiple of kDirectKeys. The last group's
// scores past `end` are those of key end - 1. Fetches keys and values ahead, those of the next tile
// included.
// q: [rows][dim]; scores: [rows][kKeyTile].
template <typename T>
HWY_NOINLINE void ScoreTileDirectly(int rows, const float* HWY_RESTRICT q,
                                    const KeyValueRows<T>& from, std::int64_t begin,
                                    std::int64_t end, std::int64_t dim, std::int64_t dim_v,
                                    float scale, float* HWY_RESTRICT scores) {
  for (std::int64_t j = begin; j < end; j += kDirectKeys) {
    const T* keys[kDirectKeys];
    for (int i = 0; i < kDirectKeys; ++i) {
      keys[i] = from.k + HWY_MIN(j + i, end - 1) * from.k_stride;
      const std::int64_t ahead = j + i + kPrefetchKeys;
      if (ahead >= from.num_readable) continue;
      PrefetchRow(from.k + ahead * from.k_stride, dim);
      PrefetchRow(from.v + ahead * from.v_stride, dim_v);
    }
    ScoreKeysOfRows(rows, q, keys, dim, scale, scores + j);
  }
}

// Whether the elements of `num_keys` rows of v are all finite. dim: a multiple of kLanes.
template <typename T>
bool AllFinite(const T* v, std::int64_t v_stride, std::int64_t num_keys, std::int64_t dim) {
  FiniteCheck<FloatTag> check;
  for (std::int64_t key = 0; key < num_keys; ++key, v += v_stride) {
    for (std::int64_t x = 0; x < dim; x += kLanes) check.See(LoadWidened(FloatTag(), v + x));
  }
  return check.AllFinite();
}

}  // namespace attnd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
