// The two matrix products of attention as register-blocked micro-kernels, for the Highway target
// being compiled.
//
// Both keep kRows x 2 vectors of results in registers and, at each step, load two vectors of the
// packed operand and broadcast one float a row of the other. With kMaxRows rows that is 2 kMaxRows
// multiply-adds for kMaxRows + 2 loads, and the packed operand is read from the cache once for
// kMaxRows rows. A result's order of additions does not depend on kRows.
#if defined(ATTND_KERNELS_CPU_TILE_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_CPU_TILE_PRODUCTS_INL_H_
#undef ATTND_KERNELS_CPU_TILE_PRODUCTS_INL_H_
#else
#define ATTND_KERNELS_CPU_TILE_PRODUCTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/fused_tile.h"
#include "kernels/cpu/tile_memory-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
inline constexpr int kLanes = hn::MaxLanes(FloatTag());
// Columns of a micro-kernel's result: two vectors.
inline constexpr int kWidth = 2 * kLanes;
// Rows of a strip: 24 sums of AVX-512's 32 registers, 12 of the 16 that others have.
inline constexpr int kMaxRows = HWY_TARGET == HWY_AVX3 ? 12 : 6;

// scores[r][0, kWidth) = scale * sum over x of q[x][r] k[x][0, kWidth), for r < kRows.
// q: [dim][kMaxRows]; k: [dim][kWidth]; scores: rows kKeyTile floats apart.
template <int kRows>
HWY_NOINLINE void ScorePanel(const float* HWY_RESTRICT q, const float* HWY_RESTRICT k,
                             std::int64_t dim, float scale, float* HWY_RESTRICT scores) {
  const FloatTag d;
  hn::Vec<FloatTag> sum[kRows][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = hn::Zero(d);
  for (std::int64_t x = 0; x < dim; ++x, q += kMaxRows, k += kWidth) {
    const auto k0 = hn::Load(d, k);
    const auto k1 = hn::Load(d, k + kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const auto qr = hn::Set(d, q[r]);
      sum[r][0] = hn::MulAdd(qr, k0, sum[r][0]);
      sum[r][1] = hn::MulAdd(qr, k1, sum[r][1]);
    }
  }
  const auto factor = hn::Set(d, scale);
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    hn::Store(hn::Mul(sum[r][0], factor), d, scores + r * kKeyTile);
    hn::Store(hn::Mul(sum[r][1], factor), d, scores + r * kKeyTile + kLanes);
  }
}

// out[r][0, kWidth) = factor[r] * out[r][0, kWidth)
//                     + sum over key < num_keys of weights[r][key] v[key][0, kWidth).
// weights: rows kKeyTile floats apart; v: rows v_stride elements apart; out: rows out_stride floats
// apart.
template <int kRows, typename T>
HWY_NOINLINE void ValuePanel(const float* HWY_RESTRICT weights, const T* HWY_RESTRICT v,
                             std::int64_t v_stride, std::int64_t num_keys,
                             const float* HWY_RESTRICT factor, float* HWY_RESTRICT out,
                             std::int64_t out_stride) {
  const FloatTag d;
  hn::Vec<FloatTag> sum[kRows][2];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    const auto f = hn::Set(d, factor[r]);
    sum[r][0] = hn::Mul(f, hn::Load(d, out + r * out_stride));
    sum[r][1] = hn::Mul(f, hn::Load(d, out + r * out_stride + kLanes));
  }
  for (std::int64_t key = 0; key < num_keys; ++key, ++weights, v += v_stride) {
    const auto v0 = LoadWidened(d, v);
    const auto v1 = LoadWidened(d, v + kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < kRows; ++r) {
      const auto w = hn::Set(d, weights[r * kKeyTile]);
      sum[r][0] = hn::MulAdd(w, v0, sum[r][0]);
      sum[r][1] = hn::MulAdd(w, v1, sum[r][1]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; ++r) {
    hn::Store(sum[r][0], d, out + r * out_stride);
    hn::Store(sum[r][1], d, out + r * out_stride + kLanes);
  }
}

// ValuePanel of one row for values that may not be finite: a key of weight 0 adds nothing, whatever
// its value, so that a row takes nothing from a key that it does not see.
template <typename T>
void ValuePanelOfSeenKeys(const float* HWY_RESTRICT weights, const T* HWY_RESTRICT v,
                          std::int64_t v_stride, std::int64_t num_keys, float factor,
                          float* HWY_RESTRICT out) {
  const FloatTag d;
  const auto f = hn::Set(d, factor);
  auto sum0 = hn::Mul(f, hn::Load(d, out));
  auto sum1 = hn::Mul(f, hn::Load(d, out + kLanes));
  for (std::int64_t key = 0; key < num_keys; ++key, v += v_stride) {
    if (weights[key] == 0.0f) continue;
    const auto w = hn::Set(d, weights[key]);
    sum0 = hn::MulAdd(w, LoadWidened(d, v), sum0);
    sum1 = hn::MulAdd(w, LoadWidened(d, v + kLanes), sum1);
  }
  hn::Store(sum0, d, out);
  hn::Store(sum1, d, out + kLanes);
}

// Calls f with std::integral_constant<int, n> for the least n of 1, 2, 4, 6, 8, 12 that is at least
// `rows` (at most kMaxRows).
template <class F>
HWY_INLINE void WithRows(int rows, const F& f) {
  if (rows <= 1) return f(std::integral_constant<int, 1>());
  if (rows <= 2) return f(std::integral_constant<int, 2>());
  if (rows <= 4) return f(std::integral_constant<int, 4>());
  if constexpr (kMaxRows == 6) return f(std::integral_constant<int, 6>());
  if (rows <= 8) return f(std::integral_constant<int, HWY_MIN(8, kMaxRows)>());
  return f(std::integral_constant<int, kMaxRows>());
}

}  // namespace attnd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
