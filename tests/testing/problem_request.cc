#include "tests/testing/problem_request.h"

#include <algorithm>
#include <cstring>

#include "server/rpc/proto_enums.h"

namespace attnd::testing {
namespace {

// Rows of a packed tensor that belong to sequences; of a dense one, all.
template <typename View>
std::int64_t RowsInUse(const View& view, const std::int32_t* cu_seqlens, std::int64_t batch_size) {
  return cu_seqlens != nullptr ? cu_seqlens[batch_size] : view.batch * view.seqlen;
}

std::string TensorBytes(const TensorView& view, const std::int32_t* cu_seqlens,
                        std::int64_t batch_size) {
  const std::int64_t rows = RowsInUse(view, cu_seqlens, batch_size);
  return {static_cast<const char*>(view.data),
          static_cast<std::size_t>(rows * view.heads * view.dim * SizeOf(view.dtype))};
}

template <typename View>
void DescribeScores(const View& view, v1::ScoreShape* shape) {
  shape->set_batch(view.batch);
  shape->set_heads(view.heads);
  shape->set_rows(view.rows);
  shape->set_cols(view.cols);
}

template <typename View>
std::string ScoreBytes(const View& view, std::int64_t element_bytes) {
  const std::int64_t elements = view.batch * view.heads * view.rows * view.cols;
  return {reinterpret_cast<const char*>(view.data),
          static_cast<std::size_t>(elements * element_bytes)};
}

void DescribeSequences(const ProblemSpec& from, const AttentionParams& p, v1::AttentionSpec* to) {
  to->set_batch_size(p.batch_size);
  to->set_seqlen_q(p.seqlen_q);
  to->set_seqlen_k(p.seqlen_k);
  if (from.layout == Layout::kPacked) {
    to->mutable_cu_seqlens_q()->Assign(p.cu_seqlens_q, p.cu_seqlens_q + p.batch_size + 1);
    to->mutable_cu_seqlens_k()->Assign(p.cu_seqlens_k, p.cu_seqlens_k + p.batch_size + 1);
    to->clear_seqlen_q();
    to->clear_seqlen_k();
  }
  to->mutable_lengths_q()->Assign(from.lengths_q.begin(), from.lengths_q.end());
  to->mutable_lengths_k()->Assign(from.lengths_k.begin(), from.lengths_k.end());
}

void DescribeOptions(const ProblemSpec& from, const AttentionParams& p, v1::AttentionSpec* to) {
  to->set_layout(from.layout == Layout::kBhsd ? v1::TENSOR_LAYOUT_BHSD : v1::TENSOR_LAYOUT_BSHD);
  to->set_dtype(DataTypeToProto(p.q.dtype));
  to->set_out_dtype(DataTypeToProto(p.out.dtype));
  to->set_softmax_scale(p.softmax_scale);
  to->set_softcap(p.softcap);
  to->set_causal(p.causal);
  if (p.window_left >= 0) to->set_window_left(p.window_left);
  if (p.window_right >= 0) to->set_window_right(p.window_right);
  if (p.alibi_slopes != nullptr) {
    const std::int64_t batches = p.alibi_batch_stride == 0 ? 1 : p.batch_size;
    to->mutable_alibi_slopes()->Assign(p.alibi_slopes, p.alibi_slopes + batches * p.num_heads);
  }
  if (p.sinks != nullptr) to->mutable_sinks()->Assign(p.sinks, p.sinks + p.num_heads);
  to->set_return_lse(from.lse);
  to->set_return_probs(from.probs);
}

}  // namespace

v1::AttendRequest RequestOf(Problem& problem) {
  const AttentionParams p = problem.params();
  v1::AttendRequest request;
  v1::AttentionSpec& spec = *request.mutable_spec();
  spec.set_num_heads(p.num_heads);
  spec.set_num_kv_heads(p.num_kv_heads);
  spec.set_head_dim(p.head_dim);
  spec.set_head_dim_v(p.head_dim_v);
  DescribeSequences(problem.spec(), p, &spec);
  DescribeOptions(problem.spec(), p, &spec);
  request.set_q(TensorBytes(p.q, p.cu_seqlens_q, p.batch_size));
  request.set_k(TensorBytes(p.k, p.cu_seqlens_k, p.batch_size));
  request.set_v(TensorBytes(p.v, p.cu_seqlens_k, p.batch_size));
  if (p.mask.data != nullptr) {
    DescribeScores(p.mask, spec.mutable_mask_shape());
    request.set_mask(ScoreBytes(p.mask, 1));
  }
  if (p.bias.data != nullptr) {
    DescribeScores(p.bias, spec.mutable_bias_shape());
    spec.set_bias_dtype(DataTypeToProto(p.bias.dtype));
    request.set_bias(ScoreBytes(p.bias, SizeOf(p.bias.dtype)));
  }
  return request;
}

void StoreResponse(const v1::AttendResponse& response, Problem& problem) {
  const AttentionParams p = problem.params();
  std::memcpy(p.out.data, response.out().data(), response.out().size());
  if (p.probs != nullptr) {
    std::memcpy(p.probs, response.probs().data(), response.probs().size());
  }
  if (p.lse == nullptr) return;
  // A packed problem has rows after its last sequence, which messages do not.
  const bool packed = p.cu_seqlens_q != nullptr;
  const std::int64_t row_bytes = (packed ? p.cu_seqlens_q[p.batch_size] : p.seqlen_q) *
                                 static_cast<std::int64_t>(sizeof(float));
  const char* from = response.lse().data();
  for (std::int64_t b = 0; b < (packed ? 1 : p.batch_size); ++b) {
    for (std::int64_t h = 0; h < p.num_heads; ++h, from += row_bytes) {
      std::memcpy(p.lse + b * p.lse_batch_stride + h * p.lse_head_stride, from, row_bytes);
    }
  }
}

}  // namespace attnd::testing
