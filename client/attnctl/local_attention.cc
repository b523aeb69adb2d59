#include "client/attnctl/local_attention.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <thread>

#include "absl/strings/str_cat.h"
#include "client/attnctl/element_types.h"
#include "kernels/attnd_kernels.h"

namespace attnd::attnctl {
namespace {

std::int64_t TypeCode(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT16:
      return ATTND_FLOAT16;
    case v1::DATA_TYPE_BFLOAT16:
      return ATTND_BFLOAT16;
    default:
      return ATTND_FLOAT32;
  }
}

std::int64_t Product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// Lets the library use all processors.
void RunOnAllProcessors(void*, std::int64_t num_tasks, void (*task)(void*, std::int64_t),
                        void* task_context) {
  std::atomic<std::int64_t> next{0};
  auto work = [&] {
    for (std::int64_t i = next++; i < num_tasks; i = next++) task(task_context, i);
  };
  std::vector<std::thread> threads;
  const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  for (unsigned i = 1; i < processors; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}

// A problem as the library takes it, and the arrays that its pointers point to.
class LocalCall {
 public:
  LocalCall(const HostProblem& problem, const LocalOptions& options)
      : problem_(problem), options_(options), spec_(problem.spec), sizes_(problem.spec) {
    out_.resize(std::max<std::int64_t>(1, Product(OutShape(spec_)) * BytesOf(options.out_dtype)));
    result_.lse.resize(Product(LseShape(spec_)));
    if (options.probs) result_.probs.resize(Product(ProbsShape(spec_)));
    SetSizes();
    SetTensors();
    SetOptions();
  }
  LocalCall(const LocalCall&) = delete;
  LocalCall& operator=(const LocalCall&) = delete;

  absl::StatusOr<LocalResult> Run() {
    attnd_execution execution = {};
    execution.struct_size = sizeof(execution);
    execution.backend = ATTND_CPU;
    execution.algorithm = options_.algorithm;
    execution.parallel_for = RunOnAllProcessors;
    std::int64_t workspace_bytes = 0;
    if (attnd_attention_workspace(&params_, &execution, &workspace_bytes) != ATTND_OK)
      return Error();
    const auto workspace = std::make_unique<std::byte[]>(workspace_bytes + kWorkspaceAlignment);
    void* aligned = workspace.get();
    std::size_t room = workspace_bytes + kWorkspaceAlignment;
    execution.workspace = std::align(kWorkspaceAlignment, workspace_bytes, aligned, room);
    execution.workspace_bytes = workspace_bytes;
    if (attnd_attention(&params_, &execution) != ATTND_OK) return Error();
    const std::size_t out_bytes = Product(OutShape(spec_)) * BytesOf(options_.out_dtype);
    result_.out = Widen(options_.out_dtype, std::span(out_).first(out_bytes));
    return std::move(result_);
  }

 private:
  static constexpr std::size_t kWorkspaceAlignment = 256;

  static absl::Status Error() {
    return absl::InternalError(absl::StrCat("the local computation failed: ", attnd_last_error()));
  }

  attnd_tensor Tensor(const void* data, v1::DataType dtype, std::int64_t seqlen,
                      std::int64_t total_rows, std::int64_t num_heads, std::int64_t dim) const {
    const TensorStrides strides = StridesOf(spec_, seqlen, num_heads, dim);
    attnd_tensor tensor = {};
    // An array without elements may have no address; the library wants one.
    tensor.data = const_cast<void*>(data != nullptr ? data : out_.data());
    tensor.dtype = TypeCode(dtype);
    tensor.batch = sizes_.packed ? 1 : spec_.batch_size();
    tensor.seqlen = sizes_.packed ? total_rows : seqlen;
    tensor.heads = num_heads;
    tensor.dim = dim;
    tensor.batch_stride = strides.batch;
    tensor.seq_stride = strides.row;
    tensor.head_stride = strides.head;
    return tensor;
  }

  static attnd_score_array ScoreArray(const v1::ScoreShape& shape, const void* data,
                                      v1::DataType dtype) {
    attnd_score_array array = {};
    array.data = data;
    array.dtype = TypeCode(dtype);
    array.batch = shape.batch();
    array.heads = shape.heads();
    array.rows = shape.rows();
    array.cols = shape.cols();
    array.row_stride = shape.rows() == 1 ? 0 : shape.cols();
    array.head_stride = shape.heads() == 1 ? 0 : shape.rows() * shape.cols();
    array.batch_stride = shape.batch() == 1 ? 0 : shape.heads() * shape.rows() * shape.cols();
    return array;
  }

  // nullptr for an empty list, which means the default. Entries of a sound spec fit 32 bits.
  const std::int32_t* Lengths(const google::protobuf::RepeatedField<std::int64_t>& from,
                              std::vector<std::int32_t>& to) {
    to.assign(from.begin(), from.end());
    return to.empty() ? nullptr : to.data();
  }

  void SetSizes() {
    params_.struct_size = sizeof(params_);
    params_.batch_size = spec_.batch_size();
    params_.seqlen_q = sizes_.seqlen_q;
    params_.seqlen_k = sizes_.seqlen_k;
    params_.num_heads = spec_.num_heads();
    params_.num_kv_heads = sizes_.num_kv_heads;
    params_.head_dim = spec_.head_dim();
    params_.head_dim_v = sizes_.head_dim_v;
    params_.cu_seqlens_q = Lengths(spec_.cu_seqlens_q(), cu_seqlens_q_);
    params_.cu_seqlens_k = Lengths(spec_.cu_seqlens_k(), cu_seqlens_k_);
    params_.lengths_q = Lengths(spec_.lengths_q(), lengths_q_);
    params_.lengths_k = Lengths(spec_.lengths_k(), lengths_k_);
  }

  void SetTensors() {
    params_.q = Tensor(problem_.q.data(), spec_.dtype(), sizes_.seqlen_q, sizes_.rows_q,
                       spec_.num_heads(), spec_.head_dim());
    params_.k = Tensor(problem_.k.data(), spec_.dtype(), sizes_.seqlen_k, sizes_.rows_k,
                       sizes_.num_kv_heads, spec_.head_dim());
    params_.v = Tensor(problem_.v.data(), spec_.dtype(), sizes_.seqlen_k, sizes_.rows_k,
                       sizes_.num_kv_heads, sizes_.head_dim_v);
    params_.out = Tensor(out_.data(), options_.out_dtype, sizes_.seqlen_q, sizes_.rows_q,
                         spec_.num_heads(), sizes_.head_dim_v);
    params_.lse = result_.lse.empty() ? nullptr : result_.lse.data();
    params_.lse_batch_stride = sizes_.packed ? 0 : spec_.num_heads() * sizes_.seqlen_q;
    params_.lse_head_stride = sizes_.packed ? sizes_.rows_q : sizes_.seqlen_q;
    params_.probs = result_.probs.empty() ? nullptr : result_.probs.data();
  }

  void SetOptions() {
    params_.has_softmax_scale = spec_.has_softmax_scale();
    params_.softmax_scale = spec_.softmax_scale();
    params_.softcap = spec_.softcap();
    params_.causal = spec_.causal();
    params_.has_window_left = spec_.has_window_left() && spec_.window_left() >= 0;
    params_.has_window_right = spec_.has_window_right() && spec_.window_right() >= 0;
    params_.window_left = params_.has_window_left ? spec_.window_left() : 0;
    params_.window_right = params_.has_window_right ? spec_.window_right() : 0;
    if (spec_.has_mask_shape()) {
      params_.mask = ScoreArray(spec_.mask_shape(), problem_.mask.data(), spec_.dtype());
    }
    if (spec_.has_bias_shape()) {
      params_.bias = ScoreArray(
          spec_.bias_shape(), problem_.bias.data(),
          spec_.bias_dtype() == v1::DATA_TYPE_UNSPECIFIED ? spec_.dtype() : spec_.bias_dtype());
    }
    if (!spec_.alibi_slopes().empty()) {
      params_.alibi_slopes = spec_.alibi_slopes().data();
      const bool per_batch = spec_.alibi_slopes_size() != spec_.num_heads();
      params_.alibi_batch_stride = per_batch ? spec_.num_heads() : 0;
    }
    if (!spec_.sinks().empty()) params_.sinks = spec_.sinks().data();
  }

  const HostProblem& problem_;
  const LocalOptions& options_;
  const v1::AttentionSpec& spec_;
  const ProblemSizes sizes_;
  std::vector<std::byte> out_;
  LocalResult result_;
  std::vector<std::int32_t> cu_seqlens_q_, cu_seqlens_k_, lengths_q_, lengths_k_;
  attnd_attention_params params_ = {};
};

}  // namespace

absl::StatusOr<LocalResult> ComputeLocally(const HostProblem& problem,
                                           const LocalOptions& options) {
  return LocalCall(problem, options).Run();
}

}  // namespace attnd::attnctl
