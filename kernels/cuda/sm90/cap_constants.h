// What the softcap of a request multiplies by, worked out once on the host.
#pragma once

#include "kernels/attention_params.h"
#include "kernels/cuda/sm90/log2_units.h"
#include "kernels/data_type.h"
#include "kernels/host_device.h"

namespace attnd::cuda::sm90 {

struct CapConstants {
  static constexpr int kMostTerms = 5;
  float coefficients[kMostTerms];  // of the capped score in units of log2, as an odd polynomial of
                                   // a product
  float near_limit;                // smallest product that it is not for
  float far_scale;                 // a product times this is 2 log2(e) * score / softcap
  float limit;                     // softcap in units of log2

  // A row is settled once its maximum is not negative (and near). The weights of products below
  // -near_limit are then under 2^-38 of its largest, where the polynomial, which only falls, is as
  // good as any other small number: a million of them add up to 2^-18. A softcap too low for that
  // settles no row.
  bool settles;

  ATTND_HOST_DEVICE bool Settles(float max) const {
    return settles && max >= 0.0f && max < near_limit;
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

// For y = softmax_scale * product / softcap.
template <int kTerms>
CapConstants MakeCapConstants(const AttentionParams& p) {
  using Tanh = TanhPolynomial<kTerms>;
  const double scale = static_cast<double>(p.softmax_scale) / p.softcap;
  const double limit = static_cast<double>(p.softcap) * kLog2E;
  CapConstants cap = {};
  double factor = limit * scale;
  for (int i = 0; i < kTerms; ++i, factor *= scale * scale)
    cap.coefficients[i] = static_cast<float>(Tanh::kCoefficients[i] * factor);
  cap.near_limit = static_cast<float>(Tanh::kLargest / scale);
  cap.far_scale = static_cast<float>(2 * kLog2E * scale);
  cap.limit = static_cast<float>(limit);
  cap.settles = limit * Tanh::kTanhOfLargest >= 38;
  return cap;
}

}  // namespace attnd::cuda::sm90
