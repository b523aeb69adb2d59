// Reduction of the lanes of four vectors at once, for the Highway target being compiled: four
// results for little more than the shuffles of one.
#if defined(ATTND_KERNELS_CPU_LANE_REDUCTION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_CPU_LANE_REDUCTION_INL_H_
#undef ATTND_KERNELS_CPU_LANE_REDUCTION_INL_H_
#else
#define ATTND_KERNELS_CPU_LANE_REDUCTION_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attnd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct AddOp {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};

struct MaxOp {
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
};

// Reduces the 128-bit blocks of v to one.
template <class D, class Op>
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> ReduceBlocks([[maybe_unused]] D d, hn::Vec<D> v,
                                                         [[maybe_unused]] Op op) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return v;
  } else {
    const hn::Half<D> dh;
    return ReduceBlocks(dh, op(hn::LowerHalf(dh, v), hn::UpperHalf(dh, v)), op);
  }
}

// {lanes of v0 reduced by `op`, of v1, of v2, of v3}.
template <class D, class Op>
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> ReduceLanesOf4(D d, hn::Vec<D> v0, hn::Vec<D> v1,
                                                           hn::Vec<D> v2, hn::Vec<D> v3, Op op) {
  const hn::RepartitionToWide<D> dw;
  const auto pairs01 = op(hn::InterleaveLower(d, v0, v1), hn::InterleaveUpper(d, v0, v1));
  const auto pairs23 = op(hn::InterleaveLower(d, v2, v3), hn::InterleaveUpper(d, v2, v3));
  const auto w01 = hn::BitCast(dw, pairs01);
  const auto w23 = hn::BitCast(dw, pairs23);
  return ReduceBlocks(d,
                      op(hn::BitCast(d, hn::InterleaveLower(dw, w01, w23)),
                         hn::BitCast(d, hn::InterleaveUpper(dw, w01, w23))),
                      op);
}

}  // namespace attnd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
