// What the softcap of a request multiplies by, worked out once on the host.
#pragma once

#include <cmath>

#include "kernels/attention_params.h"
#include "kernels/cuda/sm90/log2_units.h"
#include "kernels/data_type.h"
#include "kernels/host_device.h"

namespace attnd::cuda::sm90 {

// The capped score in units of log2, as an odd polynomial of a product: of three terms in one form,
// of more in another.
struct CapPolynomial {
  // Of three terms: factor x ((x^2 + half)^2 + rest). Every step has one operand beside the product
  // and what it has come to, where Horner's scheme has two.
  float factor, half, rest;
  static constexpr int kMostTerms = 5;
  float coefficients[kMostTerms];  // of more than three terms
};

struct CapConstants {
  CapPolynomial polynomial;
  float near_limit;  // smallest product that the polynomial is not for
  float far_scale;   // a product times this is 2 log2(e) * score / softcap
  float limit;       // softcap in units of log2

  // A row is settled from this maximum on, if it is near. The weights of products below -near_limit
  // are then under 2^-34 of its largest, where the polynomial, which only falls, is as good as any
  // other small number: a million of them add up to 2^-14.
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

// tanh(y) / y as a polynomial of y^2 for |y| <= largest, minimax in relative error.
template <int kTerms>
struct TanhPolynomial;
// 5.7e-7.
template <>
struct TanhPolynomial<5> {
  static constexpr double kLargest = 0.75;
  static constexpr double kTanhOfLargest = 0.6351;
  static constexpr double kCoefficients[] = {9.9999943492e-1, -3.3328251529e-1, 1.3258983190e-1,
                                             -5.0056301793e-2, 1.2929631621e-2};
};
// 6.4e-5: of a score, a thirtieth of what rounding it to bfloat16 takes away.
template <>
struct TanhPolynomial<3> {
  static constexpr double kLargest = 0.6;
  static constexpr double kTanhOfLargest = 0.5370;
  static constexpr double kCoefficients[] = {9.9993687e-1, -3.3012815e-1, 1.0839802e-1};
};

constexpr int CapTerms(DataType dtype) { return dtype == DataType::kBFloat16 ? 3 : 5; }

inline CapPolynomial MakeCapPolynomial(const double (&tanh)[3], double limit, double scale) {
  CapPolynomial polynomial = {};
  const double half = tanh[1] / (2.0 * tanh[2]);
  polynomial.factor = static_cast<float>(limit * tanh[2] * std::pow(scale, 5));
  polynomial.half = static_cast<float>(half / std::pow(scale, 2));
  polynomial.rest = static_cast<float>((tanh[0] / tanh[2] - half * half) / std::pow(scale, 4));
  return polynomial;
}
template <int kTerms>
CapPolynomial MakeCapPolynomial(const double (&tanh)[kTerms], double limit, double scale) {
  static_assert(kTerms <= CapPolynomial::kMostTerms);
  CapPolynomial polynomial = {};
  double factor = limit * scale;
  for (int i = 0; i < kTerms; ++i, factor *= scale * scale)
    polynomial.coefficients[i] = static_cast<float>(tanh[i] * factor);
  return polynomial;
}

// For y = softmax_scale * product / softcap.
template <int kTerms>
CapConstants MakeCapConstants(const AttentionParams& p) {
  using Tanh = TanhPolynomial<kTerms>;
  constexpr double kNegligible = 34.0;  // that a weight is less than 2^-kNegligible of the largest
  const double scale = static_cast<double>(p.softmax_scale) / p.softcap;
  const double limit = static_cast<double>(p.softcap) * kLog2E;
  const double settled_from = kNegligible / limit - Tanh::kTanhOfLargest;  // over the softcap
  CapConstants cap = {};
  cap.polynomial = MakeCapPolynomial(Tanh::kCoefficients, limit, scale);
  cap.near_limit = static_cast<float>(Tanh::kLargest / scale);
  cap.far_scale = static_cast<float>(2 * kLog2E * scale);
  cap.limit = static_cast<float>(limit);
  cap.looks = settled_from > 0.0;
  cap.settled_from = cap.looks ? 0.0f : static_cast<float>(std::atanh(settled_from) / scale);
  return cap;
}

}  // namespace attnd::cuda::sm90
