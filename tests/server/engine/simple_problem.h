// Problems whose answers are plain to see.
#pragma once

#include <cstdint>
#include <cstring>

#include "server/engine/attention_plan.h"
#include "server/engine/engine.h"

namespace attnd {

template <typename View>
void SetContiguous(View& view, std::int64_t batch, std::int64_t seqlen, std::int64_t heads,
                   std::int64_t dim) {
  view.batch = batch;
  view.seqlen = seqlen;
  view.heads = heads;
  view.dim = dim;
  view.head_stride = dim;
  view.seq_stride = heads * dim;
  view.batch_stride = seqlen * heads * dim;
}

// q [1, seqlen_q, 1, head_dim], k and v [1, seqlen_k, 1, head_dim], float32.
inline AttentionProblem MakeProblem(std::int64_t seqlen_q, std::int64_t seqlen_k,
                                    std::int64_t head_dim) {
  AttentionProblem problem;
  AttentionParams& p = problem.params;
  p.batch_size = p.num_heads = p.num_kv_heads = 1;
  p.seqlen_q = seqlen_q;
  p.seqlen_k = seqlen_k;
  p.head_dim = p.head_dim_v = head_dim;
  SetContiguous(p.q, 1, seqlen_q, 1, head_dim);
  SetContiguous(p.k, 1, seqlen_k, 1, head_dim);
  SetContiguous(p.v, 1, seqlen_k, 1, head_dim);
  SetContiguous(p.out, 1, seqlen_q, 1, head_dim);
  return problem;
}

// Fills q and k with 1 and v with `value`: every weight is 1 / seqlen_k, and every element of out
// is `value`.
inline void FillInputs(AttentionJob& job, float value) {
  const auto fill = [&job](InputTensor tensor, float element) {
    const absl::Span<std::byte> bytes = job.input(tensor);
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(float))
      std::memcpy(&bytes[i], &element, sizeof(float));
  };
  fill(InputTensor::kQ, 1.0f);
  fill(InputTensor::kK, 1.0f);
  fill(InputTensor::kV, value);
}

inline float FloatAt(absl::Span<const std::byte> bytes, std::int64_t index) {
  float value;
  std::memcpy(&value, bytes.data() + index * sizeof(float), sizeof(float));
  return value;
}

}  // namespace attnd
