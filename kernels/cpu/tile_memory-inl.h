// Moving tiles between tensors and float32 scratch, for the Highway target being compiled:
// widening, packing, narrowing.
#if defined(ATTND_KERNELS_CPU_TILE_MEMORY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_CPU_TILE_MEMORY_INL_H_
#undef ATTND_KERNELS_CPU_TILE_MEMORY_INL_H_
#else
#define ATTND_KERNELS_CPU_TILE_MEMORY_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "kernels/data_type.h"

HWY_BEFORE_NAMESPACE();
namespace attnd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Whether the target converts binary16 in hardware; where it does not, Highway's conversions do not
// keep inf and NaN.
inline constexpr bool kHasFloat16 = HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3;

// Lanes(d) elements from `p` on, widened to float32.
template <class D>
HWY_INLINE hn::Vec<D> LoadWidened(D d, const float* p) {
  return hn::LoadU(d, p);
}

template <class D>
HWY_INLINE hn::Vec<D> LoadWidened(D d, const hwy::bfloat16_t* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::bfloat16_t, D>(), p));
}

template <class D>
HWY_INLINE hn::Vec<D> LoadWidened(D d, const hwy::float16_t* p) {
  if constexpr (kHasFloat16) {
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), p));
  } else {
    HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
    for (std::size_t i = 0; i < hn::MaxLanes(d); ++i) lanes[i] = Float16ToFloat(p[i].bits);
    return hn::Load(d, lanes);
  }
}

// Narrows to nearest, ties to even.
template <class D>
HWY_INLINE void StoreNarrowed(D d, hn::Vec<D> v, float* p) {
  hn::StoreU(v, d, p);
}

template <class D>
HWY_INLINE void StoreNarrowed(D d, hn::Vec<D> v, hwy::bfloat16_t* p) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fff)));
  const auto quiet_nan = hn::Or(bits, hn::Set(du, 0x00400000));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(v));
  const auto chosen = hn::IfThenElse(is_nan, quiet_nan, rounded);
  hn::StoreU(hn::DemoteTo(hn::Rebind<hwy::bfloat16_t, D>(), hn::BitCast(d, chosen)),
             hn::Rebind<hwy::bfloat16_t, D>(), p);
}

template <class D>
HWY_INLINE void StoreNarrowed(D d, hn::Vec<D> v, hwy::float16_t* p) {
  if constexpr (kHasFloat16) {
    const hn::Rebind<hwy::float16_t, D> dh;
    hn::StoreU(hn::DemoteTo(dh, v), dh, p);
  } else {
    HWY_ALIGN float lanes[HWY_MAX_BYTES / sizeof(float)];
    hn::Store(v, d, lanes);
    for (std::size_t i = 0; i < hn::MaxLanes(d); ++i) p[i].bits = FloatToFloat16(lanes[i]);
  }
}

// Transposes the 4 x 4 block of the rows at r0..r3 to `to`, whose rows are `stride` floats apart.
template <typename T>
HWY_INLINE void Transpose4x4(const T* r0, const T* r1, const T* r2, const T* r3,
                             float* HWY_RESTRICT to, std::int64_t stride) {
  const hn::CappedTag<float, 4> d;
  const hn::RepartitionToWide<decltype(d)> dw;
  const auto a = LoadWidened(d, r0);
  const auto b = LoadWidened(d, r1);
  const auto c = LoadWidened(d, r2);
  const auto e = LoadWidened(d, r3);
  const auto ab_low = hn::BitCast(dw, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(dw, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(dw, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(dw, hn::InterleaveUpper(d, c, e));
  hn::Store(hn::BitCast(d, hn::InterleaveLower(dw, ab_low, ce_low)), d, to);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(dw, ab_low, ce_low)), d, to + stride);
  hn::Store(hn::BitCast(d, hn::InterleaveLower(dw, ab_high, ce_high)), d, to + 2 * stride);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(dw, ab_high, ce_high)), d, to + 3 * stride);
}

// Packs `num_keys` rows of k, `key_stride` elements apart, into panels [ceil(num_keys /
// kWidth)][dim][kWidth]: a step of the score product loads kWidth keys at once. Keys past num_keys
// become 0 and are not read.
template <int kWidth, typename T>
void PackKeys(const T* k, std::int64_t key_stride, std::int64_t num_keys, std::int64_t dim,
              float* HWY_RESTRICT packed) {
  HWY_ALIGN static constexpr T kZeros[4] = {};
  for (std::int64_t key = 0; key < num_keys; key += kWidth, packed += dim * kWidth) {
    for (int lane = 0; lane < kWidth; lane += 4) {
      const T* rows[4];
      std::int64_t steps[4];
      for (int i = 0; i < 4; ++i) {
        const bool exists = key + lane + i < num_keys;
        rows[i] = exists ? k + (key + lane + i) * key_stride : kZeros;
        steps[i] = exists ? 1 : 0;
      }
      for (std::int64_t x = 0; x < dim; x += 4) {
        Transpose4x4(rows[0] + x * steps[0], rows[1] + x * steps[1], rows[2] + x * steps[2],
                     rows[3] + x * steps[3], packed + x * kWidth + lane, kWidth);
      }
    }
  }
}

// Whether values seen so far are finite. Looks at them as whole numbers: those of which the
// exponent is all ones are the largest.
template <class D>
class FiniteCheck {
 public:
  HWY_INLINE FiniteCheck() : largest_(hn::Zero(hn::RebindToSigned<D>())) {}
  HWY_INLINE void See(hn::Vec<D> values) {
    const hn::RebindToSigned<D> di;
    largest_ = hn::Max(largest_, hn::BitCast(di, hn::Abs(values)));
  }
  HWY_INLINE bool AllFinite() const {
    const hn::RebindToSigned<D> di;
    return hn::AllTrue(di, hn::Lt(largest_, hn::Set(di, 0x7f800000)));
  }

 private:
  hn::Vec<hn::RebindToSigned<D>> largest_;
};

// PackValues in steps of Lanes(d) columns, which divide dim and kWidth.
template <int kWidth, int kPanelKeys, class D, typename T>
bool PackValuesInSteps(D d, const T* v, std::int64_t key_stride, std::int64_t num_keys,
                       std::int64_t padded_keys, std::int64_t dim, float* HWY_RESTRICT packed) {
  constexpr std::int64_t kStep = hn::MaxLanes(D());
  const std::int64_t padded_dim = (dim + kWidth - 1) / kWidth * kWidth;
  FiniteCheck<D> check;
  for (std::int64_t x = 0; x < padded_dim; x += kStep) {
    float* to = packed + x / kWidth * kWidth * kPanelKeys + x % kWidth;
    const std::int64_t filled_keys = x < dim ? num_keys : 0;
    for (std::int64_t key = 0; key < filled_keys; ++key) {
      const auto values = LoadWidened(d, v + key * key_stride + x);
      check.See(values);
      hn::Store(values, d, to + key * kWidth);
    }
    for (std::int64_t key = filled_keys; key < padded_keys; ++key) {
      hn::Store(hn::Zero(d), d, to + key * kWidth);
    }
  }
  return check.AllFinite();
}

// Packs `num_keys` rows of v, `key_stride` elements apart, into panels
// [ceil(dim / kWidth)][kPanelKeys][kWidth] from row 0 of each panel on. Rows up to `padded_keys`
// and columns past dim become 0. Returns whether all elements are finite.
template <int kWidth, int kPanelKeys, typename T>
bool PackValues(const T* v, std::int64_t key_stride, std::int64_t num_keys,
                std::int64_t padded_keys, std::int64_t dim, float* HWY_RESTRICT packed) {
  const hn::CappedTag<float, 16> wide;
  const hn::CappedTag<float, 8> narrow;  // divides every head dim
  if (dim % static_cast<std::int64_t>(hn::MaxLanes(wide)) == 0) {
    return PackValuesInSteps<kWidth, kPanelKeys>(wide, v, key_stride, num_keys, padded_keys, dim,
                                                 packed);
  }
  return PackValuesInSteps<kWidth, kPanelKeys>(narrow, v, key_stride, num_keys, padded_keys, dim,
                                               packed);
}

}  // namespace attnd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
