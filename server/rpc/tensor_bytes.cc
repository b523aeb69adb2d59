#include "server/rpc/tensor_bytes.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"
#include "server/rpc/error_details.h"

namespace attnd {
namespace {

std::int64_t BytesOf(const TensorView& view) {
  return view.batch * view.seqlen * view.heads * view.dim * SizeOf(view.dtype);
}

template <typename View>
std::int64_t ElementsOf(const View& view) {
  return view.batch * view.heads * view.rows * view.cols;
}

std::string Shape(const TensorView& view, bool packed, const char* seqlen, const char* total,
                  const char* heads, const char* dim) {
  const std::string rows =
      packed ? absl::StrCat(total, " ", view.seqlen)
             : absl::StrCat("batch_size ", view.batch, " x ", seqlen, " ", view.seqlen);
  return absl::StrCat(rows, " x ", heads, " ", view.heads, " x ", dim, " ", view.dim, " x ",
                      SizeOf(view.dtype), " bytes of ", std::string(NameOf(view.dtype)));
}

template <typename View>
std::string ScoreShape(const View& view, const char* name) {
  if (view.batch == 0 && view.cols == 0) return absl::StrCat("there is no ", name, "_shape");
  return absl::StrCat(name, "_shape ", view.batch, " x ", view.heads, " x ", view.rows, " x ",
                      view.cols);
}

// The factors that make up a tensor's bytes, for an error message.
std::string Explain(const AttentionProblem& problem, InputTensor tensor) {
  const AttentionParams& p = problem.params;
  const bool packed = !problem.cu_seqlens_q.empty();
  switch (tensor) {
    case InputTensor::kQ:
      return Shape(p.q, packed, "seqlen_q", "total_q", "num_heads", "head_dim");
    case InputTensor::kK:
      return Shape(p.k, packed, "seqlen_k", "total_k", "num_kv_heads", "head_dim");
    case InputTensor::kV:
      return Shape(p.v, packed, "seqlen_k", "total_k", "num_kv_heads", "head_dim_v");
    case InputTensor::kMask:
      return ScoreShape(p.mask, "mask");
    case InputTensor::kBias:
      return ScoreShape(p.bias, "bias");
  }
  return "";
}

}  // namespace

std::int64_t TensorBytes(const AttentionProblem& problem, InputTensor tensor) {
  const AttentionParams& p = problem.params;
  switch (tensor) {
    case InputTensor::kQ:
      return BytesOf(p.q);
    case InputTensor::kK:
      return BytesOf(p.k);
    case InputTensor::kV:
      return BytesOf(p.v);
    case InputTensor::kMask:
      return ElementsOf(p.mask);
    case InputTensor::kBias:
      return ElementsOf(p.bias) * SizeOf(p.bias.dtype);
  }
  return 0;
}

absl::Status CheckTensorBytes(const AttentionProblem& problem, const InputTensorBytes& sizes) {
  for (int i = 0; i < kNumInputTensors; ++i) {
    const auto tensor = static_cast<InputTensor>(i);
    const std::int64_t needed = TensorBytes(problem, tensor);
    if (sizes[i] == needed) continue;
    return FieldError(NameOf(tensor), absl::StrCat(sizes[i], " bytes, the spec needs ", needed,
                                                   " (", Explain(problem, tensor), ")"));
  }
  return absl::OkStatus();
}

}  // namespace attnd
