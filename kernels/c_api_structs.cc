#include "kernels/c_api_structs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kernels/attention_shape.h"
#include "kernels/guarded_task.h"
#include "kernels/status_macros.h"

namespace attnd {
namespace {

// Fields of all structs come in units of this size, so that no version ends within one.
constexpr std::size_t kSizeUnit = 8;
static_assert(sizeof(attnd_attention_params) % kSizeUnit == 0);
static_assert(sizeof(attnd_merge_params) % kSizeUnit == 0);
static_assert(sizeof(attnd_execution) % kSizeUnit == 0);

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// `required` is the size of the part that every version has.
absl::Status CheckSize(const char* name, std::size_t size, std::size_t required,
                       std::size_t known) {
  if (size >= required && size <= known && size % kSizeUnit == 0) return absl::OkStatus();
  return Invalid(name, ": struct_size ", size, "; ", required, " to ", known, " is accepted");
}

template <typename Struct>
absl::StatusOr<Struct> Read(const char* name, const Struct* from, std::size_t required) {
  if (from == nullptr) return Invalid(name, ": NULL");
  RETURN_IF_ERROR(CheckSize(name, from->struct_size, required, sizeof(Struct)));
  Struct result = {};
  std::memcpy(&result, from, from->struct_size);
  return result;
}

absl::StatusOr<DataType> ToDataType(const char* field, std::int64_t dtype) {
  if (dtype >= ATTND_FLOAT32 && dtype <= ATTND_BFLOAT16) return static_cast<DataType>(dtype);
  return Invalid(field, ": dtype ", dtype, "; ", static_cast<int>(ATTND_FLOAT32), " to ",
                 static_cast<int>(ATTND_BFLOAT16), " is accepted");
}

template <typename View>
absl::Status SetTensor(const char* field, const attnd_tensor& from, View& to) {
  to.data = from.data;
  ASSIGN_OR_RETURN(to.dtype, ToDataType(field, from.dtype));
  to.batch = from.batch;
  to.seqlen = from.seqlen;
  to.heads = from.heads;
  to.dim = from.dim;
  to.batch_stride = from.batch_stride;
  to.seq_stride = from.seq_stride;
  to.head_stride = from.head_stride;
  return absl::OkStatus();
}

template <typename View>
void SetScoreArray(const attnd_score_array& from, View& to) {
  to.data = static_cast<decltype(to.data)>(from.data);
  to.batch = from.batch;
  to.heads = from.heads;
  to.rows = from.rows;
  to.cols = from.cols;
  to.batch_stride = from.batch_stride;
  to.head_stride = from.head_stride;
  to.row_stride = from.row_stride;
}

template <typename View>
absl::Status CheckTensorPointer(const char* field, const View& view) {
  if (view.data != nullptr || view.batch == 0 || view.seqlen == 0) return absl::OkStatus();
  return Invalid(field, ": NULL");
}

template <typename View>
absl::Status CheckScorePointer(const char* field, const View& view) {
  const bool has_elements = view.batch > 0 && view.heads > 0 && view.rows > 0 && view.cols > 0;
  if (view.data == nullptr && has_elements) return Invalid(field, ": NULL");
  const bool has_shape = view.batch > 0 || view.heads > 0 || view.rows > 0 || view.cols > 0;
  if (view.data != nullptr && !has_shape) return Invalid(field, ": data without a shape");
  return absl::OkStatus();
}

absl::Status CheckLseStrides(const AttentionParams& p) {
  if (p.lse == nullptr) return absl::OkStatus();
  if (p.num_heads > 1 && p.lse_head_stride < p.q.seqlen) {
    return Invalid("lse: head stride ", p.lse_head_stride, "; at least ", p.q.seqlen,
                   " is accepted");
  }
  const std::int64_t rows = (p.num_heads - 1) * p.lse_head_stride + p.q.seqlen;
  if (p.q.batch > 1 && p.lse_batch_stride < rows) {
    return Invalid("lse: batch stride ", p.lse_batch_stride, "; at least ", rows, " is accepted");
  }
  return absl::OkStatus();
}

absl::Status CheckPointers(const AttentionParams& p) {
  RETURN_IF_ERROR(CheckTensorPointer("q", p.q));
  RETURN_IF_ERROR(CheckTensorPointer("k", p.k));
  RETURN_IF_ERROR(CheckTensorPointer("v", p.v));
  RETURN_IF_ERROR(CheckTensorPointer("out", p.out));
  RETURN_IF_ERROR(CheckScorePointer("mask", p.mask));
  RETURN_IF_ERROR(CheckScorePointer("bias", p.bias));
  if ((p.cu_seqlens_q == nullptr) != (p.cu_seqlens_k == nullptr)) {
    return Invalid(p.cu_seqlens_q == nullptr ? "cu_seqlens_q" : "cu_seqlens_k",
                   ": NULL, the other one is not; give both or neither");
  }
  if (p.cu_seqlens_q == nullptr && p.q.batch != p.batch_size) {
    return Invalid("cu_seqlens_q: NULL for packed sequences");
  }
  if (p.cu_seqlens_q != nullptr && p.q.batch != 1) {
    return Invalid("q: batch ", p.q.batch, " with cu_seqlens_q; 1 is accepted");
  }
  if (p.cu_seqlens_q == nullptr && (p.q.seqlen != p.seqlen_q || p.k.seqlen != p.seqlen_k)) {
    return Invalid("seqlen_q, seqlen_k: ", p.seqlen_q, ", ", p.seqlen_k, "; q and k have ",
                   p.q.seqlen, ", ", p.k.seqlen);
  }
  return CheckLseStrides(p);
}

// A GuardedTask as the caller's threads call it.
void CallGuardedTask(void* task, std::int64_t i) noexcept { (*static_cast<GuardedTask*>(task))(i); }

absl::StatusOr<std::int64_t> ToWindow(const char* field, std::int32_t has, std::int64_t window) {
  if (has == 0) return -1;
  if (window < 0) return Invalid(field, ": ", window, "; at least 0 is accepted");
  return window;
}

absl::Status SetOptions(const attnd_attention_params& from, AttentionParams& p) {
  p.softmax_scale =
      from.has_softmax_scale != 0
          ? from.softmax_scale
          : 1.0f / std::sqrt(static_cast<float>(std::max<std::int64_t>(p.head_dim, 1)));
  p.softcap = from.softcap;
  p.causal = from.causal != 0;
  ASSIGN_OR_RETURN(p.window_left, ToWindow("window_left", from.has_window_left, from.window_left));
  ASSIGN_OR_RETURN(p.window_right,
                   ToWindow("window_right", from.has_window_right, from.window_right));
  SetScoreArray(from.mask, p.mask);
  SetScoreArray(from.bias, p.bias);
  ASSIGN_OR_RETURN(p.bias.dtype, ToDataType("bias", from.bias.dtype));
  p.alibi_slopes = from.alibi_slopes;
  p.alibi_batch_stride = from.alibi_batch_stride;
  p.sinks = from.sinks;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<attnd_attention_params> ReadStruct(const attnd_attention_params* params) {
  return Read("params", params, offsetof(attnd_attention_params, lse));
}

absl::StatusOr<attnd_merge_params> ReadStruct(const attnd_merge_params* params) {
  return Read("params", params, offsetof(attnd_merge_params, lse));
}

absl::StatusOr<attnd_execution> ReadStruct(const attnd_execution* execution) {
  return Read("execution", execution, offsetof(attnd_execution, algorithm));
}

absl::Status CheckStruct(const attnd_kernel_info* info) {
  if (info == nullptr) return Invalid("info: NULL");
  return CheckSize("info", info->struct_size, sizeof(attnd_kernel_info), sizeof(attnd_kernel_info));
}

absl::StatusOr<AttentionParams> ToAttentionParams(const attnd_attention_params& params) {
  AttentionParams p;
  p.batch_size = params.batch_size;
  p.seqlen_q = params.seqlen_q;
  p.seqlen_k = params.seqlen_k;
  p.num_heads = params.num_heads;
  p.num_kv_heads = params.num_kv_heads;
  p.head_dim = params.head_dim;
  p.head_dim_v = params.head_dim_v;
  RETURN_IF_ERROR(SetTensor("q", params.q, p.q));
  RETURN_IF_ERROR(SetTensor("k", params.k, p.k));
  RETURN_IF_ERROR(SetTensor("v", params.v, p.v));
  RETURN_IF_ERROR(SetTensor("out", params.out, p.out));
  p.lse = params.lse;
  p.lse_batch_stride = params.lse_batch_stride;
  p.lse_head_stride = params.lse_head_stride;
  p.probs = params.probs;
  p.cu_seqlens_q = params.cu_seqlens_q;
  p.cu_seqlens_k = params.cu_seqlens_k;
  p.lengths_q = params.lengths_q;
  p.lengths_k = params.lengths_k;
  RETURN_IF_ERROR(SetOptions(params, p));
  RETURN_IF_ERROR(ValidateShape(p));
  RETURN_IF_ERROR(CheckPointers(p));
  return p;
}

absl::StatusOr<MergeParams> ToMergeParams(const attnd_merge_params& params) {
  MergeParams p;
  p.num_parts = params.num_parts;
  p.rows = params.rows;
  p.dim = params.head_dim_v;
  p.out_parts = params.out_parts;
  p.lse_parts = params.lse_parts;
  p.out = params.out;
  ASSIGN_OR_RETURN(p.out_dtype, ToDataType("out", params.out_dtype));
  p.lse = params.lse;
  RETURN_IF_ERROR(ValidateMerge(p));
  if (p.rows == 0) return p;
  if (p.out_parts == nullptr) return Invalid("out_parts: NULL");
  if (p.lse_parts == nullptr) return Invalid("lse_parts: NULL");
  if (p.out == nullptr) return Invalid("out: NULL");
  return p;
}

absl::StatusOr<Backend> ToBackend(std::int64_t backend) {
  if (backend == ATTND_CPU) return Backend::kCpu;
  if (backend == ATTND_CUDA) return Backend::kCuda;
  return Invalid("backend: ", backend, "; ", static_cast<int>(ATTND_CPU), " (CPU) or ",
                 static_cast<int>(ATTND_CUDA), " (CUDA) is accepted");
}

absl::StatusOr<ExecutionContext> ToExecutionContext(const attnd_execution& execution,
                                                    ParallelFor* parallel_for) {
  ExecutionContext context;
  context.parallel_for = execution.parallel_for != nullptr ? parallel_for : nullptr;
  context.stream = execution.stream;
  context.workspace = execution.workspace;
  context.workspace_bytes = execution.workspace_bytes;
  ASSIGN_OR_RETURN(context.device.backend, ToBackend(execution.backend));
  context.device.compute_capability = static_cast<int>(execution.compute_capability);
  context.device.num_multiprocessors = static_cast<int>(execution.num_multiprocessors);
  context.device.shared_memory_per_block_bytes = execution.shared_memory_per_block_bytes;
  return context;
}

void CallerParallelFor::Run(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> task) {
  GuardedTask guarded(task);
  function_(context_, num_tasks, &CallGuardedTask, &guarded);
  guarded.Rethrow();
}

int CallerParallelFor::MaxParallelism() const {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace attnd
