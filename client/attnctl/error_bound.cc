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

// The standard un-fused computation. Its scores are the exact ones, which the exact weights give
// back as ln(p) + lse, with the error that summing q.k in float32 in order has, rounded to the
// dtype; from there on it is computed as it stands.
class UnfusedComputation {
 public:
  UnfusedComputation(const HostProblem& problem, const LocalResult& exact)
      : spec_(problem.spec),
        sizes_(problem.spec),
        exact_(exact),
        scale_(spec_.has_softmax_scale() ? spec_.softmax_scale()
                                         : 1.0f / std::sqrt(static_cast<float>(spec_.head_dim()))),
        q_(problem.q, spec_, sizes_.seqlen_q, spec_.num_heads(), spec_.head_dim()),
        k_(problem.k, spec_, sizes_.seqlen_k, sizes_.num_kv_heads, spec_.head_dim()),
        v_(problem.v, spec_, sizes_.seqlen_k, sizes_.num_kv_heads, sizes_.head_dim_v),
        out_strides_(StridesOf(spec_, sizes_.seqlen_q, spec_.num_heads(), sizes_.head_dim_v)) {}

  Extents ErrorExtents() const {
    Extents extents;
    for (std::int64_t b = 0; b < spec_.batch_size(); ++b) {
      for (std::int64_t head = 0; head < spec_.num_heads(); ++head) {
        for (std::int64_t row = 0; row < Rows(b); ++row) AddRow(b, head, row, extents);
      }
    }
    return extents;
  }

 private:
  // A tensor widened to float32.
  struct Widened {
    Widened(const std::vector<std::byte>& bytes, const v1::AttentionSpec& spec, std::int64_t seqlen,
            std::int64_t num_heads, std::int64_t dim)
        : values(Widen(spec.dtype(), bytes)), strides(StridesOf(spec, seqlen, num_heads, dim)) {}

    const float* Row(std::int64_t b, std::int64_t row, std::int64_t head) const {
      return values.data() + b * strides.batch + row * strides.row + head * strides.head;
    }

    std::vector<float> values;
    TensorStrides strides;
  };

  std::int64_t Rows(std::int64_t b) const {
    return sizes_.packed ? FirstRowQ(b + 1) - FirstRowQ(b) : sizes_.seqlen_q;
  }
  std::int64_t FirstRowQ(std::int64_t b) const {
    return sizes_.packed ? spec_.cu_seqlens_q(static_cast<int>(b)) : 0;
  }
  std::int64_t FirstRowK(std::int64_t b) const {
    return sizes_.packed ? spec_.cu_seqlens_k(static_cast<int>(b)) : 0;
  }
  std::int64_t KvHead(std::int64_t head) const {
    return head / (spec_.num_heads() / sizes_.num_kv_heads);
  }

  float ExactLse(std::int64_t b, std::int64_t head, std::int64_t row) const {
    if (sizes_.packed) return exact_.lse[head * sizes_.rows_q + FirstRowQ(b) + row];
    return exact_.lse[(b * spec_.num_heads() + head) * sizes_.seqlen_q + row];
  }

  std::span<const float> ExactProbs(std::int64_t b, std::int64_t head, std::int64_t row) const {
    const std::int64_t index = (b * spec_.num_heads() + head) * sizes_.seqlen_q + row;
    return std::span(exact_.probs).subspan(index * sizes_.seqlen_k, sizes_.seqlen_k);
  }

  // How far off a float32 sum of products is: in order or in reverse, whichever is further. One
  // order alone is a single sample of the error; where two scores decide a row, it may be close to
  // 0 by luck.
  double DotError(const float* q, const float* k) const {
    const std::int64_t dim = spec_.head_dim();
    float forward = 0;
    float backward = 0;
    double exact = 0;
    for (std::int64_t d = 0; d < dim; ++d) {
      forward += q[d] * k[d];
      backward += q[dim - 1 - d] * k[dim - 1 - d];
      exact += static_cast<double>(q[d]) * static_cast<double>(k[d]);
    }
    const double forward_error = static_cast<double>(forward) - exact;
    const double backward_error = static_cast<double>(backward) - exact;
    return std::abs(forward_error) > std::abs(backward_error) ? forward_error : backward_error;
  }

  // -inf where the row does not attend.
  std::vector<float> Scores(std::int64_t b, std::int64_t head, std::int64_t row) const {
    const std::span<const float> probs = ExactProbs(b, head, row);
    const float* const q = q_.Row(b, FirstRowQ(b) + row, head);
    std::vector<float> scores(probs.size(), -std::numeric_limits<float>::infinity());
    for (std::size_t j = 0; j < probs.size(); ++j) {
      if (probs[j] == 0.0f) continue;
      const float* const k = k_.Row(b, FirstRowK(b) + static_cast<std::int64_t>(j), KvHead(head));
      const double exact = std::log(static_cast<double>(probs[j])) + ExactLse(b, head, row);
      scores[j] = Round(spec_.dtype(), static_cast<float>(exact + scale_ * DotError(q, k)));
    }
    return scores;
  }

  void AddRow(std::int64_t b, std::int64_t head, std::int64_t row, Extents& extents) const {
    const float exact_lse = ExactLse(b, head, row);
    if (!std::isfinite(exact_lse)) return;
    const std::vector<float> scores = Scores(b, head, row);
    const float sink = spec_.sinks().empty() ? -std::numeric_limits<float>::infinity()
                                             : spec_.sinks(static_cast<int>(head));
    float largest = sink;
    for (const float score : scores) largest = std::max(largest, score);
    float sum = std::exp(sink - largest);
    for (const float score : scores) sum += std::exp(score - largest);
    extents.lse.Add(exact_lse, largest + std::log(sum));

    const std::span<const float> exact_probs = ExactProbs(b, head, row);
    std::vector<float> out(sizes_.head_dim_v);
    for (std::size_t j = 0; j < scores.size(); ++j) {
      const float weight = Round(spec_.dtype(), std::exp(scores[j] - largest) / sum);
      extents.probs.Add(exact_probs[j], weight);
      const float* const v = v_.Row(b, FirstRowK(b) + static_cast<std::int64_t>(j), KvHead(head));
      if (weight == 0.0f) continue;
      for (std::int64_t d = 0; d < sizes_.head_dim_v; ++d) out[d] += weight * v[d];
    }
    const float* const exact_out = exact_.out.data() + b * out_strides_.batch +
                                   (FirstRowQ(b) + row) * out_strides_.row +
                                   head * out_strides_.head;
    for (std::int64_t d = 0; d < sizes_.head_dim_v; ++d) {
      extents.out.Add(exact_out[d], Round(sizes_.out_dtype, out[d]));
    }
  }

  const v1::AttentionSpec& spec_;
  const ProblemSizes sizes_;
  const LocalResult& exact_;
  const float scale_;
  const Widened q_;
  const Widened k_;
  const Widened v_;
  const TensorStrides out_strides_;
};

}  // namespace

ErrorBounds BoundsFor(const HostProblem& problem, const LocalResult& exact) {
  const Extents extents = UnfusedComputation(problem, exact).ErrorExtents();
  return {.out = extents.out.Bound(ProblemSizes(problem.spec).out_dtype),
          .lse = extents.lse.Bound(v1::DATA_TYPE_FLOAT32),
          .probs = extents.probs.Bound(v1::DATA_TYPE_FLOAT32)};
}

}  // namespace attnd::attnctl
