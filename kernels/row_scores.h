// What the numerical-stability report says of one query row's scores. One definition for host and
// device.
#pragma once

#include <cmath>

#include "kernels/host_device.h"
#include "kernels/online_softmax.h"

namespace attnd {

// The scores of the keys that a row attends to, taken one after the other.
struct RowScores {
  float smallest = -NegativeInfinity();
  float largest = NegativeInfinity();
  // sum exp(score - largest). In float64: the report is about rows of any length, and a sum of
  // millions of small weights would stand still in float32.
  double weight_sum = 0.0;
  bool attends = false;

  // A score of -inf is none. NaN takes no part in the range, but makes the weights NaN.
  ATTND_HOST_DEVICE void Add(float score) {
    if (score == NegativeInfinity()) return;
    attends = true;
    smallest = fminf(smallest, score);
    const float raised = fmaxf(largest, score);
    if (raised != largest) {
      // In float64, too: scores that rise with every key would pile up as many roundings.
      weight_sum *= exp(static_cast<double>(largest) - static_cast<double>(raised));
      largest = raised;
    }
    weight_sum += expf(score - largest);
  }

  // The largest weight of a row that attends to something; `sink` is -inf where there is none. Not
  // exp(largest - lse): lse is rounded to float32, by as much as the logarithm of a weight where
  // scores are large. Never above 1.
  ATTND_HOST_DEVICE float LargestWeight(float sink) const {
    const double sink_weight = exp(static_cast<double>(sink) - static_cast<double>(largest));
    return static_cast<float>(1.0 / (weight_sum + sink_weight));
  }
};

}  // namespace attnd
