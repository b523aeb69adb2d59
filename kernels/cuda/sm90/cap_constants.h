// What the softcap of a request multiplies by, worked out once on the host.
#pragma once

#include <cmath>

#include "kernels/attention_params.h"
#include "kernels/cuda/sm90/log2_units.h"
#include "kernels/data_type.h"
#include "kernels/host_device.h"

namespace attnd::cuda::sm90 {

// The capped score in units of log2, as an odd polynomial of a product x of three terms:
//   factor x ((x^2 + half)^2 + rest).
// Every step has one operand beside the product and what it has come to, where Horner's scheme has
// two.
struct CapPolynomial {
  float factor, half, rest;
};

struct CapConstants {
  CapPolynomial polynomial;
  float near_limit;  // smallest product that the polynomial is not for
  float far_scale;   // a product times this is 2 log2(e) * score / softcap
  float limit;       // softcap in units of log2

  // A row is settled from this maximum on, if it is near. The weights of products below -near_limit
  // are then under 2^-32 of its largest, where the polynomial, which only falls, is as good as any
  // other small number: a million of them add up to 2^-12.
  float settled_from;
  // The softcap is too low for that: settled_from would be more than most rows come to. Products
  // below -near_limit have to be looked for.
  bool looks;

  ATTND_HOST_DEVICE bool Settles(float max) const {
    return !looks && max >= settled_from && max < near_limit;
  }
  // Whether the polynomial is for this maximum, and by it for all products of its row that are not
  // looked for.
  ATTND_HOST_DEVICE bool Reaches(float max) const {
    return looks ? max > -near_limit && max < near_limit : Settles(max);
  }
};

// tanh(y) / y as a polynomial of y^2 for |y| <= largest, minimax in relative error: a twentieth of
// what rounding a score to the type takes away, or less.
struct TanhPolynomial {
  double largest;
  double tanh_of_largest;
  double coefficients[3];
};
// 6.3e-5.
inline constexpr TanhPolynomial kTanhForBFloat16 = {
    0.6, 0.53704956700, {9.9993685551e-1, -3.3012805942e-1, 1.0839797126e-1}};
// 2.3e-5.
inline constexpr TanhPolynomial kTanhForFloat16 = {
    0.5, 0.46211715726, {9.9997743569e-1, -3.3169150688e-1, 1.1520976428e-1}};

// Of products times `scale`, and their tanh times `limit`.
inline CapPolynomial MakeCapPolynomial(const TanhPolynomial& tanh, double scale, double limit) {
  const double* const c = tanh.coefficients;
  const double half = c[1] / (2.0 * c[2]);
  CapPolynomial polynomial = {};
  polynomial.factor = static_cast<float>(limit * c[2] * std::pow(scale, 5));
  polynomial.half = static_cast<float>(half / std::pow(scale, 2));
  polynomial.rest = static_cast<float>((c[0] / c[2] - half * half) / std::pow(scale, 4));
  return polynomial;
}

inline CapConstants MakeCapConstants(const AttentionParams& p) {
  constexpr double kNegligible = 32.0;  // that a weight is less than 2^-kNegligible of the largest
  const TanhPolynomial& tanh =
      p.q.dtype == DataType::kBFloat16 ? kTanhForBFloat16 : kTanhForFloat16;
  const double scale = static_cast<double>(p.softmax_scale) / p.softcap;
  const double limit = static_cast<double>(p.softcap) * kLog2E;
  const double settled_from = kNegligible / limit - tanh.tanh_of_largest;  // over the softcap
  CapConstants cap = {};
  cap.polynomial = MakeCapPolynomial(tanh, scale, limit);
  cap.near_limit = static_cast<float>(tanh.largest / scale);
  cap.far_scale = static_cast<float>(2 * kLog2E * scale);
  cap.limit = static_cast<float>(limit);
  cap.looks = settled_from > 0.0;
  cap.settled_from = cap.looks ? 0.0f : static_cast<float>(std::atanh(settled_from) / scale);
  return cap;
}

}  // namespace attnd::cuda::sm90
