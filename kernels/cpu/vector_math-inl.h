// Vector functions that the softmax needs, for the Highway target being compiled.
#if defined(ATTND_KERNELS_CPU_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_CPU_VECTOR_MATH_INL_H_
#undef ATTND_KERNELS_CPU_VECTOR_MATH_INL_H_
#else
#define ATTND_KERNELS_CPU_VECTOR_MATH_INL_H_
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace attnd::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// e^x for x <= 0, within 1 ulp (1.2 without fused multiply-adds) down to 2^-126 and exactly 0 from
// -88 on, -inf included. NaN gives NaN. x = n ln 2 + r with n whole and |r| <= ln(2) / 2; e^r is a
// polynomial (minimax in ulp, first two terms exactly 1, so that the largest score of a row weighs
// exactly 1) and 2^n is put together in the exponent bits.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpOfNonPositive(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  // 1.5 * 2^23 + 127: adding it rounds x / ln 2 to the whole number n and leaves n + 127 in the low
  // bits of the sum.
  const V magic = hn::Set(d, 12582912.0f + 127.0f);
  // The bound, for which n + 127 = 0, comes first: where one operand is NaN, x86 returns the
  // second.
  x = hn::Max(hn::Set(d, -88.0f), x);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  // ln 2 in two parts, the first short enough that its product with n is exact (Cody and Waite
  // 1980).
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V poly = hn::Set(d, 1.3780383e-3f);
  poly = hn::MulAdd(poly, r, hn::Set(d, 8.3688833e-3f));
  poly = hn::MulAdd(poly, r, hn::Set(d, 4.1669089e-2f));
  poly = hn::MulAdd(poly, r, hn::Set(d, 1.6666520e-1f));
  poly = hn::MulAdd(poly, r, hn::Set(d, 4.9999991e-1f));
  poly = hn::MulAdd(poly, r, hn::Set(d, 1.0f));
  poly = hn::MulAdd(poly, r, hn::Set(d, 1.0f));
  const V power = hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, shifted)));
  return hn::Mul(poly, power);
}

// tanh x within 3 ulp: an odd polynomial where |x| < 0.625 (minimax in relative error), else (1 -
// e) / (1 + e) with e = exp(-2 |x|). NaN gives NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V Tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V magnitude = hn::Abs(x);
  const V square = hn::Mul(x, x);
  V poly = hn::Set(d, -5.7049873e-3f);
  poly = hn::MulAdd(poly, square, hn::Set(d, 2.0639088e-2f));
  poly = hn::MulAdd(poly, square, hn::Set(d, -5.3739715e-2f));
  poly = hn::MulAdd(poly, square, hn::Set(d, 1.3331442e-1f));
  poly = hn::MulAdd(poly, square, hn::Set(d, -3.3333281e-1f));
  const V small = hn::MulAdd(hn::Mul(x, square), poly, x);
  const V e = ExpOfNonPositive(d, hn::Mul(magnitude, hn::Set(d, -2.0f)));
  const V large = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
  return hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0.625f)), small, large);
}

}  // namespace attnd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
