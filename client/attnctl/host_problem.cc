#include "client/attnctl/host_problem.h"

#include <algorithm>
#include <random>

#include "client/attnctl/element_types.h"

namespace attnd::attnctl {
namespace {

using CuSeqlens = google::protobuf::RepeatedField<std::int64_t>;

std::int64_t LongestSequence(std::int64_t seqlen, const CuSeqlens& cu_seqlens) {
  if (cu_seqlens.empty() || seqlen != 0) return seqlen;
  std::int64_t longest = 0;
  for (int b = 1; b < cu_seqlens.size(); ++b) {
    longest = std::max(longest, cu_seqlens[b] - cu_seqlens[b - 1]);
  }
  return longest;
}

std::int64_t TotalRows(std::int64_t batch_size, std::int64_t seqlen, const CuSeqlens& cu_seqlens) {
  return cu_seqlens.empty() ? batch_size * seqlen : *cu_seqlens.rbegin();
}

v1::DataType OutDataType(const v1::AttentionSpec& spec) {
  if (spec.return_partial()) return v1::DATA_TYPE_FLOAT32;
  return spec.out_dtype() == v1::DATA_TYPE_UNSPECIFIED ? spec.dtype() : spec.out_dtype();
}

std::vector<std::byte> RandomTensor(std::int64_t size, v1::DataType dtype,
                                    std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(size);
  for (float& value : values) value = normal(random);
  return Narrow(dtype, values);
}

std::vector<std::byte> RandomMask(std::int64_t size, std::mt19937_64& random) {
  std::bernoulli_distribution may_attend(0.9);
  std::vector<std::byte> mask(size);
  for (std::byte& element : mask) element = std::byte{may_attend(random)};
  return mask;
}

}  // namespace

ProblemSizes::ProblemSizes(const v1::AttentionSpec& spec)
    : num_kv_heads(spec.num_kv_heads() == 0 ? spec.num_heads() : spec.num_kv_heads()),
      head_dim_v(spec.head_dim_v() == 0 ? spec.head_dim() : spec.head_dim_v()),
      rows_q(TotalRows(spec.batch_size(), spec.seqlen_q(), spec.cu_seqlens_q())),
      rows_k(TotalRows(spec.batch_size(), spec.seqlen_k(), spec.cu_seqlens_k())),
      seqlen_q(LongestSequence(spec.seqlen_q(), spec.cu_seqlens_q())),
      seqlen_k(LongestSequence(spec.seqlen_k(), spec.cu_seqlens_k())),
      packed(!spec.cu_seqlens_q().empty()),
      out_dtype(OutDataType(spec)) {}

TensorStrides StridesOf(const v1::AttentionSpec& spec, std::int64_t seqlen, std::int64_t num_heads,
                        std::int64_t dim) {
  if (!spec.cu_seqlens_q().empty()) return {.batch = 0, .row = num_heads * dim, .head = dim};
  const std::int64_t batch = seqlen * num_heads * dim;
  if (spec.layout() == v1::TENSOR_LAYOUT_BHSD) {
    return {.batch = batch, .row = dim, .head = seqlen * dim};
  }
  return {.batch = batch, .row = num_heads * dim, .head = dim};
}

std::int64_t NumElements(const v1::ScoreShape& shape) {
  return shape.batch() * shape.heads() * shape.rows() * shape.cols();
}

std::vector<std::int64_t> OutShape(const v1::AttentionSpec& spec) {
  const ProblemSizes sizes(spec);
  if (sizes.packed) return {sizes.rows_q, spec.num_heads(), sizes.head_dim_v};
  if (spec.layout() == v1::TENSOR_LAYOUT_BHSD) {
    return {spec.batch_size(), spec.num_heads(), spec.seqlen_q(), sizes.head_dim_v};
  }
  return {spec.batch_size(), spec.seqlen_q(), spec.num_heads(), sizes.head_dim_v};
}

std::vector<std::int64_t> LseShape(const v1::AttentionSpec& spec) {
  const ProblemSizes sizes(spec);
  if (sizes.packed) return {spec.num_heads(), sizes.rows_q};
  return {spec.batch_size(), spec.num_heads(), spec.seqlen_q()};
}

std::vector<std::int64_t> ProbsShape(const v1::AttentionSpec& spec) {
  const ProblemSizes sizes(spec);
  return {spec.batch_size(), spec.num_heads(), sizes.seqlen_q, sizes.seqlen_k};
}

double AttentionFlops(const v1::AttentionSpec& spec) {
  const ProblemSizes sizes(spec);
  const double scores = static_cast<double>(spec.batch_size() * spec.num_heads()) *
                        static_cast<double>(sizes.seqlen_q) * static_cast<double>(sizes.seqlen_k);
  const double flops = 2.0 * scores * static_cast<double>(spec.head_dim() + sizes.head_dim_v);
  return spec.causal() && sizes.seqlen_q == sizes.seqlen_k ? flops / 2 : flops;
}

HostProblem RandomProblem(const v1::AttentionSpec& spec, std::uint64_t seed) {
  const ProblemSizes sizes(spec);
  const v1::DataType bias_dtype =
      spec.bias_dtype() == v1::DATA_TYPE_UNSPECIFIED ? spec.dtype() : spec.bias_dtype();
  std::mt19937_64 random(seed);
  HostProblem problem;
  problem.spec = spec;
  problem.q = RandomTensor(sizes.rows_q * spec.num_heads() * spec.head_dim(), spec.dtype(), random);
  problem.k =
      RandomTensor(sizes.rows_k * sizes.num_kv_heads * spec.head_dim(), spec.dtype(), random);
  problem.v =
      RandomTensor(sizes.rows_k * sizes.num_kv_heads * sizes.head_dim_v, spec.dtype(), random);
  problem.mask = RandomMask(NumElements(spec.mask_shape()), random);
  problem.bias = RandomTensor(NumElements(spec.bias_shape()), bias_dtype, random);
  return problem;
}

}  // namespace attnd::attnctl
