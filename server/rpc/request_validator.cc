#include "server/rpc/request_validator.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/attention_shape.h"
#include "kernels/sequence_lengths.h"
#include "kernels/status_macros.h"
#include "server/rpc/field_checks.h"
#include "server/rpc/proto_enums.h"
#include "server/rpc/sequence_lengths.h"

namespace attnd {
namespace {

constexpr std::int64_t kMaxHeads = 65536;

absl::Status CheckHeadDim(absl::string_view field, std::int64_t value) {
  if (value >= kHeadDimMultiple && value <= kMaxHeadDim && value % kHeadDimMultiple == 0)
    return absl::OkStatus();
  return Refused(field, value,
                 absl::StrCat("a multiple of ", kHeadDimMultiple, ", ", kHeadDimMultiple, " to ",
                              kMaxHeadDim));
}

// What is accepted for a tensor that is of the inputs' type or of float32.
std::string TypesBeside(v1::DataType dtype) {
  const std::string& float32 = v1::DataType_Name(v1::DATA_TYPE_FLOAT32);
  if (dtype == v1::DATA_TYPE_FLOAT32) return absl::StrCat(float32, "; or not set");
  return absl::StrCat(v1::DataType_Name(dtype), " (dtype), ", float32, "; or not set");
}

// Turns one spec into one problem: each step checks a group of fields and fills the part of the
// problem that they decide.
class SpecReader {
 public:
  SpecReader(const v1::AttentionSpec& spec, const RequestLimits& limits)
      : spec_(spec), limits_(limits) {}

  absl::StatusOr<AttentionProblem> Read() {
    RETURN_IF_ERROR(ReadHeads());
    RETURN_IF_ERROR(ReadDataTypes());
    RETURN_IF_ERROR(ReadSequences(spec_, &problem_));
    RETURN_IF_ERROR(ReadScalars());
    RETURN_IF_ERROR(ReadTensors());
    RETURN_IF_ERROR(ReadMaskAndBias());
    RETURN_IF_ERROR(ReadPerHeadLists());
    RETURN_IF_ERROR(ReadOutputs());
    return std::move(problem_);
  }

 private:
  AttentionParams& params() { return problem_.params; }
  bool packed() const { return spec_.cu_seqlens_q_size() > 0; }

  absl::Status ReadHeads();
  absl::Status ReadDataTypes();
  absl::Status CheckOutDtype() const;
  absl::Status CheckBiasDtype() const;
  absl::Status ReadScalars();
  absl::Status ReadWindow();
  absl::Status ReadTensors();
  template <typename View>
  absl::Status FillView(absl::string_view name, std::int64_t seqlen, std::int64_t heads,
                        std::int64_t dim, DataType dtype,
                        const std::vector<std::int32_t>& cumulative, View* view);
  absl::Status ReadMaskAndBias();
  template <typename View>
  absl::Status FillScoreView(absl::string_view name, const v1::ScoreShape& shape, DataType dtype,
                             std::int64_t element_bytes, View* view);
  absl::Status ReadPerHeadLists();
  absl::Status ReadOutputs();

  const v1::AttentionSpec& spec_;
  const RequestLimits& limits_;
  AttentionProblem problem_;
};

absl::Status SpecReader::ReadHeads() {
  AttentionParams& p = params();
  RETURN_IF_ERROR(CheckRange("batch_size", spec_.batch_size(), 0, limits_.max_batch_size));
  RETURN_IF_ERROR(CheckRange("num_heads", spec_.num_heads(), 1, kMaxHeads));
  if (spec_.batch_size() * spec_.num_heads() > limits_.max_batch_heads) {
    return Refused("batch_size",
                   absl::StrCat(spec_.batch_size(), " with num_heads ", spec_.num_heads()),
                   absl::StrCat("a product of at most ", limits_.max_batch_heads));
  }
  p.batch_size = spec_.batch_size();
  p.num_heads = spec_.num_heads();
  p.num_kv_heads = spec_.num_kv_heads() == 0 ? p.num_heads : spec_.num_kv_heads();
  if (p.num_kv_heads < 1 || p.num_kv_heads > p.num_heads || p.num_heads % p.num_kv_heads != 0) {
    return Refused("num_kv_heads", spec_.num_kv_heads(),
                   absl::StrCat("a divisor of num_heads ", p.num_heads));
  }
  p.head_dim = spec_.head_dim();
  p.head_dim_v = spec_.head_dim_v() == 0 ? p.head_dim : spec_.head_dim_v();
  RETURN_IF_ERROR(CheckHeadDim("head_dim", p.head_dim));
  return CheckHeadDim("head_dim_v", p.head_dim_v);
}

absl::Status SpecReader::ReadDataTypes() {
  if (spec_.dtype() == v1::DATA_TYPE_UNSPECIFIED || !v1::DataType_IsValid(spec_.dtype())) {
    return Refused("dtype", EnumText(spec_.dtype(), v1::DataType_descriptor()),
                   EnumNames(v1::DataType_descriptor()));
  }
  RETURN_IF_ERROR(CheckOutDtype());
  RETURN_IF_ERROR(CheckBiasDtype());
  RETURN_IF_ERROR(CheckEnum("layout", spec_.layout(), v1::TensorLayout_descriptor()));
  RETURN_IF_ERROR(CheckEnum("algorithm", spec_.algorithm(), v1::Algorithm_descriptor()));
  problem_.algorithm = AlgorithmFromProto(spec_.algorithm());
  return absl::OkStatus();
}

absl::Status SpecReader::CheckOutDtype() const {
  const v1::DataType value = spec_.out_dtype();
  if (value == v1::DATA_TYPE_UNSPECIFIED || value == v1::DATA_TYPE_FLOAT32) return absl::OkStatus();
  if (value == spec_.dtype() && !spec_.return_partial()) return absl::OkStatus();
  return Refused("out_dtype", EnumText(value, v1::DataType_descriptor()),
                 spec_.return_partial() ? "DATA_TYPE_FLOAT32 with return_partial; or not set"
                                        : TypesBeside(spec_.dtype()));
}

absl::Status SpecReader::CheckBiasDtype() const {
  const v1::DataType value = spec_.bias_dtype();
  if (value == v1::DATA_TYPE_UNSPECIFIED || value == v1::DATA_TYPE_FLOAT32) return absl::OkStatus();
  if (value == spec_.dtype()) return absl::OkStatus();
  // Without a bias its type means nothing, as long as it is one.
  if (!spec_.has_bias_shape() && v1::DataType_IsValid(value)) return absl::OkStatus();
  return Refused("bias_dtype", EnumText(value, v1::DataType_descriptor()),
                 TypesBeside(spec_.dtype()));
}

absl::Status SpecReader::ReadScalars() {
  AttentionParams& p = params();
  p.softmax_scale = spec_.has_softmax_scale() ? spec_.softmax_scale()
                                              : 1.0f / std::sqrt(static_cast<float>(p.head_dim));
  if (!std::isfinite(p.softmax_scale))
    return Refused("softmax_scale", p.softmax_scale, "a finite number");
  p.softcap = spec_.softcap();
  if (!std::isfinite(p.softcap) || p.softcap < 0)
    return Refused("softcap", p.softcap, "a finite number of at least 0");
  p.causal = spec_.causal();
  return ReadWindow();
}

absl::Status SpecReader::ReadWindow() {
  AttentionParams& p = params();
  const std::int64_t left = spec_.has_window_left() ? spec_.window_left() : -1;
  const std::int64_t right = spec_.has_window_right() ? spec_.window_right() : -1;
  if (left < -1) return Refused("window_left", left, "-1 (all) or at least 0");
  if (right < -1) return Refused("window_right", right, "-1 (all) or at least 0");
  if (p.causal && right > 0) return Refused("window_right", right, "-1 or 0 with causal");
  // A window as wide as any sequence is no window; so bounded, row + window cannot overflow in a
  // kernel.
  p.window_left = left > kMaxSeqlen ? -1 : left;
  p.window_right = right > kMaxSeqlen ? -1 : right;
  return absl::OkStatus();
}

template <typename View>
absl::Status SpecReader::FillView(absl::string_view name, std::int64_t seqlen, std::int64_t heads,
                                  std::int64_t dim, DataType dtype,
                                  const std::vector<std::int32_t>& cumulative, View* view) {
  view->dtype = dtype;
  view->batch = packed() ? 1 : params().batch_size;
  view->seqlen = packed() ? cumulative.back() : seqlen;
  view->heads = heads;
  view->dim = dim;
  RETURN_IF_ERROR(
      CheckedBytes(name, {view->batch, view->seqlen, heads, dim, SizeOf(dtype)}).status());
  // The batch stride of an empty batch is not covered by the product above.
  ASSIGN_OR_RETURN(const std::int64_t sequence_elements,
                   CheckedBytes(name, {view->seqlen, heads, dim, SizeOf(dtype)}));
  const bool bhsd = spec_.layout() == v1::TENSOR_LAYOUT_BHSD;
  view->batch_stride = packed() ? 0 : sequence_elements / SizeOf(dtype);
  view->seq_stride = bhsd ? dim : heads * dim;
  view->head_stride = bhsd ? view->seqlen * dim : dim;
  return absl::OkStatus();
}

absl::Status SpecReader::ReadTensors() {
  AttentionParams& p = params();
  const DataType dtype = DataTypeFromProto(spec_.dtype(), DataType::kFloat32);
  const DataType out_dtype =
      DataTypeFromProto(spec_.out_dtype(), spec_.return_partial() ? DataType::kFloat32 : dtype);
  RETURN_IF_ERROR(
      FillView("q", p.seqlen_q, p.num_heads, p.head_dim, dtype, problem_.cu_seqlens_q, &p.q));
  RETURN_IF_ERROR(
      FillView("k", p.seqlen_k, p.num_kv_heads, p.head_dim, dtype, problem_.cu_seqlens_k, &p.k));
  RETURN_IF_ERROR(
      FillView("v", p.seqlen_k, p.num_kv_heads, p.head_dim_v, dtype, problem_.cu_seqlens_k, &p.v));
  return FillView("out", p.seqlen_q, p.num_heads, p.head_dim_v, out_dtype, problem_.cu_seqlens_q,
                  &p.out);
}

template <typename View>
absl::Status SpecReader::FillScoreView(absl::string_view name, const v1::ScoreShape& shape,
                                       DataType dtype, std::int64_t element_bytes, View* view) {
  const AttentionParams& p = params();
  const auto check = [&](absl::string_view dimension, std::int64_t value,
                         absl::string_view full_name, std::int64_t full) {
    if (value == 1 || value == full) return absl::OkStatus();
    return Refused(absl::StrCat(name, "_shape.", dimension), value,
                   absl::StrCat(full == 1 ? "" : "1, ", full, " (", full_name, ")"));
  };
  RETURN_IF_ERROR(check("batch", shape.batch(), "batch_size", p.batch_size));
  RETURN_IF_ERROR(check("heads", shape.heads(), "num_heads", p.num_heads));
  RETURN_IF_ERROR(check("rows", shape.rows(), "seqlen_q", p.seqlen_q));
  if (shape.cols() != p.seqlen_k) {
    return Refused(absl::StrCat(name, "_shape.cols"), shape.cols(),
                   absl::StrCat(p.seqlen_k, " (seqlen_k)"));
  }
  RETURN_IF_ERROR(
      CheckedBytes(name, {shape.batch(), shape.heads(), shape.rows(), shape.cols(), element_bytes})
          .status());
  ASSIGN_OR_RETURN(const std::int64_t batch_bytes,
                   CheckedBytes(name, {shape.heads(), shape.rows(), shape.cols(), element_bytes}));
  view->dtype = dtype;
  view->batch = shape.batch();
  view->heads = shape.heads();
  view->rows = shape.rows();
  view->cols = shape.cols();
  view->batch_stride = shape.batch() == 1 ? 0 : batch_bytes / element_bytes;
  view->head_stride = shape.heads() == 1 ? 0 : shape.rows() * shape.cols();
  view->row_stride = shape.rows() == 1 ? 0 : shape.cols();
  return absl::OkStatus();
}

absl::Status SpecReader::ReadMaskAndBias() {
  AttentionParams& p = params();
  if (spec_.has_mask_shape()) {
    RETURN_IF_ERROR(FillScoreView("mask", spec_.mask_shape(), p.mask.dtype, 1, &p.mask));
  }
  if (!spec_.has_bias_shape()) return absl::OkStatus();
  const DataType dtype = DataTypeFromProto(spec_.bias_dtype(), p.q.dtype);
  return FillScoreView("bias", spec_.bias_shape(), dtype, SizeOf(dtype), &p.bias);
}

absl::Status SpecReader::ReadPerHeadLists() {
  AttentionParams& p = params();
  const auto& slopes = spec_.alibi_slopes();
  if (!slopes.empty() && slopes.size() != p.num_heads) {
    RETURN_IF_ERROR(CheckCount("alibi_slopes", slopes.size(), p.batch_size * p.num_heads,
                               "batch_size * num_heads; or num_heads entries"));
    p.alibi_batch_stride = p.num_heads;
  }
  for (int i = 0; i < slopes.size(); ++i) {
    if (!std::isfinite(slopes[i]))
      return Refused(Element("alibi_slopes", i), slopes[i], "a finite number");
  }
  problem_.alibi_slopes.assign(slopes.begin(), slopes.end());

  const auto& sinks = spec_.sinks();
  if (sinks.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckCount("sinks", sinks.size(), p.num_heads, "num_heads"));
  for (int h = 0; h < sinks.size(); ++h) {
    if (std::isnan(sinks[h]) || sinks[h] == std::numeric_limits<float>::infinity()) {
      return Refused(Element("sinks", h), sinks[h], "a finite number or -inf");
    }
  }
  problem_.sinks.assign(sinks.begin(), sinks.end());
  return absl::OkStatus();
}

absl::Status SpecReader::ReadOutputs() {
  AttentionParams& p = params();
  problem_.want_lse = spec_.return_lse() || spec_.return_partial();
  problem_.want_probs = spec_.return_probs();
  problem_.want_diagnostics = spec_.return_diagnostics();
  ASSIGN_OR_RETURN(const std::int64_t batch_lse_bytes,
                   CheckedBytes("lse", {p.num_heads, p.out.seqlen, sizeof(float)}));
  RETURN_IF_ERROR(CheckedBytes("lse", {p.out.batch, batch_lse_bytes}).status());
  p.lse_head_stride = p.out.seqlen;
  p.lse_batch_stride = packed() ? 0 : p.num_heads * p.out.seqlen;
  if (!problem_.want_probs) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::int64_t bytes,
                   CheckedBytes("return_probs", {p.batch_size, p.num_heads, p.seqlen_q, p.seqlen_k,
                                                 sizeof(float)}));
  if (bytes > limits_.max_probs_bytes) {
    return FieldError(
        "return_probs",
        absl::StrCat("needs ", bytes, " bytes, accepted: at most ", limits_.max_probs_bytes,
                     " (batch_size x num_heads x seqlen_q x seqlen_k x 4)"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<AttentionProblem> ProblemFromSpec(const v1::AttentionSpec& spec,
                                                 const RequestLimits& limits) {
  return SpecReader(spec, limits).Read();
}

}  // namespace attnd
