#include "client/cpp/result_bytes.h"

#include <algorithm>
#include <initializer_list>

namespace attnd::internal {
namespace {

// The product of non-negative factors, or std::nullopt.
std::optional<std::int64_t> Product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    if (factor < 0 || __builtin_mul_overflow(product, factor, &product)) return std::nullopt;
  }
  return product;
}

std::optional<std::int64_t> ElementBytes(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT32:
      return 4;
    case v1::DATA_TYPE_FLOAT16:
    case v1::DATA_TYPE_BFLOAT16:
      return 2;
    default:
      return std::nullopt;
  }
}

v1::DataType OutDataType(const v1::AttentionSpec& spec) {
  if (spec.return_partial()) return v1::DATA_TYPE_FLOAT32;
  return spec.out_dtype() == v1::DATA_TYPE_UNSPECIFIED ? spec.dtype() : spec.out_dtype();
}

// Rows of the longest sequence; std::nullopt where a sequence ends before it begins.
std::optional<std::int64_t> LongestSequence(
    std::int64_t seqlen, const google::protobuf::RepeatedField<std::int64_t>& cu_seqlens) {
  if (cu_seqlens.empty() || seqlen != 0) return seqlen;
  std::int64_t longest = 0;
  for (int b = 1; b < cu_seqlens.size(); ++b) {
    std::int64_t rows = 0;
    if (__builtin_sub_overflow(cu_seqlens[b], cu_seqlens[b - 1], &rows) || rows < 0) {
      return std::nullopt;
    }
    longest = std::max(longest, rows);
  }
  return longest;
}

// `sizes` if their sum fits 63 bits, so that total() may be asked for.
std::optional<ResultBytes> IfSumFits(const ResultBytes& sizes) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(sizes.out, sizes.lse, &sum) ||
      __builtin_add_overflow(sum, sizes.probs, &sum)) {
    return std::nullopt;
  }
  return sizes;
}

}  // namespace

std::optional<ResultBytes> ResultBytesOf(const v1::AttentionSpec& spec) {
  const auto element_bytes = ElementBytes(OutDataType(spec));
  const auto rows = spec.cu_seqlens_q().empty() ? Product({spec.batch_size(), spec.seqlen_q()})
                                                : Product({*spec.cu_seqlens_q().rbegin()});
  const auto longest_q = LongestSequence(spec.seqlen_q(), spec.cu_seqlens_q());
  const auto longest_k = LongestSequence(spec.seqlen_k(), spec.cu_seqlens_k());
  if (!element_bytes.has_value() || !rows.has_value() || !longest_q.has_value() ||
      !longest_k.has_value()) {
    return std::nullopt;
  }
  const std::int64_t head_dim_v = spec.head_dim_v() == 0 ? spec.head_dim() : spec.head_dim_v();
  const auto out = Product({*rows, spec.num_heads(), head_dim_v, *element_bytes});
  const auto lse = Product({*rows, spec.num_heads(), sizeof(float)});
  const auto probs =
      Product({spec.batch_size(), spec.num_heads(), *longest_q, *longest_k, sizeof(float)});
  if (!out.has_value() || !lse.has_value() || !probs.has_value()) return std::nullopt;
  return IfSumFits({.out = *out,
                    .lse = spec.return_lse() || spec.return_partial() ? *lse : 0,
                    .probs = spec.return_probs() ? *probs : 0});
}

std::optional<ResultBytes> ResultBytesOf(const MergeInputs& inputs) {
  const auto element_bytes = ElementBytes(
      inputs.out_dtype == v1::DATA_TYPE_UNSPECIFIED ? v1::DATA_TYPE_FLOAT32 : inputs.out_dtype);
  if (!element_bytes.has_value()) return std::nullopt;
  const auto out = Product({inputs.rows, inputs.head_dim_v, *element_bytes});
  const auto lse = Product({inputs.rows, sizeof(float)});
  if (!out.has_value() || !lse.has_value()) return std::nullopt;
  return IfSumFits({.out = *out, .lse = *lse});
}

}  // namespace attnd::internal
