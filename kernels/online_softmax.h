// The running softmax state (m, l) and the rule that merges two states (Milakov and Gimelshein
// 2018; FlashAttention, Dao 2022, algorithm 1). One definition for host and device.
#pragma once

#include <cmath>

#include "kernels/host_device.h"

namespace attnd {

ATTND_HOST_DEVICE float NegativeInfinity() {
#if defined(__CUDA_ARCH__)
  return __int_as_float(0xff800000);
#else
  return -HUGE_VALF;
#endif
}

// exp(m_old - m_new), the factor by which a state with maximum m_old shrinks under the larger
// maximum m_new. An empty state (m_old == -inf) has nothing to keep: the factor is 0, never
// exp(-inf + inf) = NaN.
ATTND_HOST_DEVICE float RescaleFactor(float m_old, float m_new) {
  return m_old == NegativeInfinity() ? 0.0f : expf(m_old - m_new);
}

// One row's running maximum m (true maximum: -inf while nothing was seen) and denominator l = sum
// exp(s - m).
struct SoftmaxState {
  float m = NegativeInfinity();
  float l = 0.0f;

  // Absorbs one score. Returns the factor that the row's un-normalised output must be multiplied by
  // before `weight` times the key's value is added. A score of -inf has weight 0; NaN propagates.
  ATTND_HOST_DEVICE float Update(float score, float* weight) {
    if (score == NegativeInfinity()) {
      *weight = 0.0f;
      return 1.0f;
    }
    const float m_new = fmaxf(m, score);
    const float factor = RescaleFactor(m, m_new);
    *weight = expf(score - m_new);
    l = l * factor + *weight;
    m = m_new;
    return factor;
  }

  // Adds a sink: a score without a value. Returns the factor for the row's un-normalised output.
  ATTND_HOST_DEVICE float AddSink(float sink) {
    float unused;
    return Update(sink, &unused);
  }

  // 1 / l, or 0 for a row that saw nothing.
  ATTND_HOST_DEVICE float InverseSum() const { return l == 0.0f ? 0.0f : 1.0f / l; }

  // ln sum exp(s); -inf for a row that saw nothing.
  ATTND_HOST_DEVICE float Lse() const { return l == 0.0f ? NegativeInfinity() : m + logf(l); }
};

}  // namespace attnd
