#include "client/attnctl/error_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "client/attnctl/element_types.h"

namespace attnd::attnctl {
namespace {

// The largest error of an inexact tensor, and the largest value of the exact one.
class Extent {
 public:
  void Add(double exact, double inexact) {
    if (!std::isfinite(exact)) return;
    largest_ = std::max(largest_, std::abs(exact));
    if (std::isfinite(inexact)) error_ = std::max(error_, std::abs(exact - inexact));
  }

  void Add(std::span<const float> exact, std::span<const float> inexact) {
    for (std::size_t i = 0; i < exact.size(); ++i) Add(exact[i], inexact[i]);
  }

  // Rounding counts for the result and, in float32, for the exact value.
  double Bound(v1::DataType dtype) const {
    return 2.0 * error_ + (RoundingUnit(dtype) + RoundingUnit(v1::DATA_TYPE_FLOAT32)) * largest_ +
           std::numeric_limits<float>::denorm_min();
  }

 private:
  double error_ = 0;
  double largest_ = 0;
};

struct Extents {
  Extent out, lse, probs;
};

// The un-fused computation in a 16-bit type. Its scores are recovered from the exact weights: s =
// ln(p) + lse.
class UnfusedRounding {
 public:
  UnfusedRounding(const HostProblem& problem, const LocalResult& exact)
      : spec_(problem.spec),
        sizes_(problem.spec),
        exact_(exact),
        v_(Widen(problem.spec.dtype(), problem.v)),
        v_strides_(StridesOf(spec_, sizes_.seqlen_k, sizes_.num_kv_heads, sizes_.head_dim_v)),
        out_strides_(StridesOf(spec_, sizes_.seqlen_q, spec_.num_heads(), sizes_.head_dim_v)) {}

  void AddTo(Extents& extents) const {
    for (std::int64_t b = 0; b < spec_.batch_size(); ++b) {
      for (std::int64_t head = 0; head < spec_.num_heads(); ++head) {
        for (std::int64_t row = 0; row < Rows(b); ++row) AddRow(b, head, row, extents);
      }
    }
  }

 private:
  std::int64_t Rows(std::int64_t b) const {
    if (!sizes_.packed) return sizes_.seqlen_q;
    return spec_.cu_seqlens_q(static_cast<int>(b) + 1) - FirstRowQ(b);
  }
  std::int64_t FirstRowQ(std::int64_t b) const {
    return sizes_.packed ? spec_.cu_seqlens_q(static_cast<int>(b)) : 0;
  }
  std::int64_t FirstRowK(std::int64_t b) const {
    return sizes_.packed ? spec_.cu_seqlens_k(static_cast<int>(b)) : 0;
  }

  float ExactLse(std::int64_t b, std::int64_t head, std::int64_t row) const {
    if (sizes_.packed) return exact_.lse[head * sizes_.rows_q + FirstRowQ(b) + row];
    return exact_.lse[(b * spec_.num_heads() + head) * sizes_.seqlen_q + row];
  }

  std::span<const float> ExactProbs(std::int64_t b, std::int64_t head, std::int64_t row) const {
    const std::int64_t index = (b * spec_.num_heads() + head) * sizes_.seqlen_q + row;
    return std::span(exact_.probs).subspan(index * sizes_.seqlen_k, sizes_.seqlen_k);
  }

  void AddRow(std::int64_t b, std::int64_t head, std::int64_t row, Extents& extents) const {
    const double lse = ExactLse(b, head, row);
    if (!std::isfinite(lse)) return;
    const std::span<const float> probs = ExactProbs(b, head, row);
    std::vector<double> powers(probs.size());  // exp(rounded score - lse)
    double sum = 0;
    double exact_sum = 0;  // less than 1 by the share of a sink
    for (std::size_t j = 0; j < probs.size(); ++j) {
      if (probs[j] == 0.0f) continue;
      const double score = std::log(static_cast<double>(probs[j])) + lse;
      powers[j] = std::exp(Round(spec_.dtype(), static_cast<float>(score)) - lse);
      sum += powers[j];
      exact_sum += probs[j];
    }
    sum += std::max(0.0, 1.0 - exact_sum);
    extents.lse.Add(lse, lse + std::log(sum));

    std::vector<double> out(sizes_.head_dim_v);
    const std::int64_t kv_head = head / (spec_.num_heads() / sizes_.num_kv_heads);
    for (std::size_t j = 0; j < probs.size(); ++j) {
      const float weight = Round(spec_.dtype(), static_cast<float>(powers[j] / sum));
      extents.probs.Add(probs[j], weight);
      if (weight == 0.0f) continue;
      const std::int64_t key = FirstRowK(b) + static_cast<std::int64_t>(j);
      const float* const value =
          &v_[b * v_strides_.batch + key * v_strides_.row + kv_head * v_strides_.head];
      for (std::int64_t d = 0; d < sizes_.head_dim_v; ++d) out[d] += weight * value[d];
    }
    const float* const exact_out =
        &exact_.out[b * out_strides_.batch + (FirstRowQ(b) + row) * out_strides_.row +
                    head * out_strides_.head];
    for (std::int64_t d = 0; d < sizes_.head_dim_v; ++d) {
      extents.out.Add(exact_out[d], Round(sizes_.out_dtype, static_cast<float>(out[d])));
    }
  }

  const v1::AttentionSpec& spec_;
  const ProblemSizes sizes_;
  const LocalResult& exact_;
  const std::vector<float> v_;
  const TensorStrides v_strides_;
  const TensorStrides out_strides_;
};

}  // namespace

absl::StatusOr<ErrorBounds> BoundsFor(const HostProblem& problem, const LocalResult& exact) {
  const ProblemSizes sizes(problem.spec);
  const absl::StatusOr<LocalResult> naive =
      ComputeLocally(problem, {.algorithm = "naive", .out_dtype = sizes.out_dtype, .probs = true});
  if (!naive.ok()) return naive.status();
  Extents extents;
  extents.out.Add(exact.out, naive->out);
  extents.lse.Add(exact.lse, naive->lse);
  extents.probs.Add(exact.probs, naive->probs);
  if (problem.spec.dtype() != v1::DATA_TYPE_FLOAT32) {
    UnfusedRounding(problem, exact).AddTo(extents);
  }
  return ErrorBounds{.out = extents.out.Bound(sizes.out_dtype),
                     .lse = extents.lse.Bound(v1::DATA_TYPE_FLOAT32),
                     .probs = extents.probs.Bound(v1::DATA_TYPE_FLOAT32)};
}

}  // namespace attnd::attnctl
