// BM_FusedAttention: the CPU's fused attention on prefill and decode shapes, on one thread and on all.
//   cpu_attention_benchmark --benchmark_filter=... --benchmark_repetitions=5
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/attention_shape.h"
#include "kernels/cpu/fused_attention.h"
#include "tests/testing/threaded_parallel_for.h"

namespace attnd {
namespace {

struct Shape {
  std::int64_t batch_size;
  std::int64_t num_heads;
  std::int64_t num_kv_heads;
  std::int64_t seqlen_q;
  std::int64_t seqlen_k;
  std::int64_t head_dim;
  DataType dtype;
  bool causal;
};

// A problem of contiguous [batch, seqlen, heads, dim] tensors, its memory included.
class Problem {
 public:
  explicit Problem(const Shape& s)
      : q_(Fill(s.batch_size * s.seqlen_q * s.num_heads * s.head_dim, s.dtype, 1)),
        k_(Fill(s.batch_size * s.seqlen_k * s.num_kv_heads * s.head_dim, s.dtype, 2)),
        v_(Fill(s.batch_size * s.seqlen_k * s.num_kv_heads * s.head_dim, s.dtype, 3)),
        out_(q_.size()) {
    params_.batch_size = s.batch_size;
    params_.seqlen_q = s.seqlen_q;
    params_.seqlen_k = s.seqlen_k;
    params_.num_heads = s.num_heads;
    params_.num_kv_heads = s.num_kv_heads;
    params_.head_dim = params_.head_dim_v = s.head_dim;
    params_.q = View<TensorView>(q_.data(), s, s.seqlen_q, s.num_heads);
    params_.k = View<TensorView>(k_.data(), s, s.seqlen_k, s.num_kv_heads);
    params_.v = View<TensorView>(v_.data(), s, s.seqlen_k, s.num_kv_heads);
    params_.out = View<MutableTensorView>(out_.data(), s, s.seqlen_q, s.num_heads);
    params_.softmax_scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
    params_.causal = s.causal;
  }

  const AttentionParams& params() const { return params_; }
  std::int64_t KeyValueBytes() const { return static_cast<std::int64_t>(k_.size() + v_.size()); }

 private:
  static std::vector<char> Fill(std::int64_t count, DataType dtype, std::uint32_t seed) {
    std::vector<char> bytes(static_cast<std::size_t>(count * SizeOf(dtype)));
    for (std::int64_t i = 0; i < count; ++i) {
      seed = seed * 1664525u + 1013904223u;
      StoreElement(bytes.data(), dtype, i, static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
    }
    return bytes;
  }

  template <typename View, typename Pointer>
  static View ViewOf(Pointer data, const Shape& s, std::int64_t seqlen, std::int64_t heads);

  template <typename V, typename Pointer>
  static V View(Pointer data, const Shape& s, std::int64_t seqlen, std::int64_t heads) {
    return {.data = data,
            .dtype = s.dtype,
            .batch = s.batch_size,
            .seqlen = seqlen,
            .heads = heads,
            .dim = s.head_dim,
            .batch_stride = seqlen * heads * s.head_dim,
            .seq_stride = heads * s.head_dim,
            .head_stride = s.head_dim};
  }

  std::vector<char> q_, k_, v_, out_;
  AttentionParams params_;
};
