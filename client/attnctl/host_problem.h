// An attention problem with its tensors in host memory, as a request carries them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "attnd/client.h"
#include "attnd/v1/attention.pb.h"

namespace attnd::attnctl {

struct HostProblem {
  v1::AttentionSpec spec;
  std::vector<std::byte> q;
  std::vector<std::byte> k;
  std::vector<std::byte> v;
  std::vector<std::byte> mask;
  std::vector<std::byte> bias;

  AttendInputs inputs() const { return {.q = q, .k = k, .v = v, .mask = mask, .bias = bias}; }
  std::int64_t input_bytes() const {
    return static_cast<std::int64_t>(q.size() + k.size() + v.size() + mask.size() + bias.size());
  }
};

// What a spec leaves open, filled in. The spec is taken to be sound.
struct ProblemSizes {
  explicit ProblemSizes(const v1::AttentionSpec& spec);

  std::int64_t num_kv_heads;
  std::int64_t head_dim_v;
  std::int64_t rows_q;    // of q over all sequences
  std::int64_t rows_k;    // of k and v
  std::int64_t seqlen_q;  // of the longest sequence
  std::int64_t seqlen_k;
  bool packed;
  v1::DataType out_dtype;
};

// Element offsets of row `row`, head `head` of sequence b in q, k, v or out: b * batch + row * row
// + head * head. Rows of packed sequences count from the first of all.
struct TensorStrides {
  std::int64_t batch;
  std::int64_t row;
  std::int64_t head;
};
TensorStrides StridesOf(const v1::AttentionSpec& spec, std::int64_t seqlen, std::int64_t num_heads,
                        std::int64_t dim);

// Number of elements of a mask or bias; 0 for an absent one.
std::int64_t NumElements(const v1::ScoreShape& shape);

// [batch_size, seqlen_q, num_heads, head_dim_v] in the spec's layout, or packed; and so on.
std::vector<std::int64_t> OutShape(const v1::AttentionSpec& spec);
std::vector<std::int64_t> LseShape(const v1::AttentionSpec& spec);
std::vector<std::int64_t> ProbsShape(const v1::AttentionSpec& spec);

// 4 * batch_size * num_heads * seqlen_q * seqlen_k * (head_dim + head_dim_v) / 2, a multiply-add
// counted as two; half of that for causal with equal lengths.
double AttentionFlops(const v1::AttentionSpec& spec);

// A problem with the tensors that `spec` asks for: q, k and v normal with deviation 1, the bias
// too, mask bytes 1 with probability 0.9. The same seed gives the same tensors.
HostProblem RandomProblem(const v1::AttentionSpec& spec, std::uint64_t seed);

}  // namespace attnd::attnctl
