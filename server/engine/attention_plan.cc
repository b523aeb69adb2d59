#include "server/engine/attention_plan.h"

#include <algorithm>
#include <initializer_list>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/attention_shape.h"
#include "kernels/attention_work.h"
#include "kernels/diagnostics.h"
#include "kernels/status_macros.h"

namespace attnd {
namespace {

// Hands out aligned parts of a block that does not exist yet, and remembers whether its size
// overflowed.
class BlockLayout {
 public:
  // `size_bytes` < 0: the size has overflowed already.
  Extent Add(std::int64_t size_bytes) {
    const std::int64_t offset_bytes = RoundUpToBuffer(end_bytes_);
    if (size_bytes < 0 || size_bytes > kMaxBytes - offset_bytes) overflowed_ = true;
    if (overflowed_) return {};
    if (size_bytes == 0) return {offset_bytes, 0};
    end_bytes_ = offset_bytes + size_bytes;
    return {offset_bytes, size_bytes};
  }

  absl::StatusOr<std::int64_t> size_bytes(const char* block) const {
    if (!overflowed_) return end_bytes_;
    return absl::InvalidArgumentError(
        absl::StrCat(block, ": its size in bytes does not fit in 60 bits"));
  }

 private:
  // Leaves room for the sum of all blocks of a request in 63 bits.
  static constexpr std::int64_t kMaxBytes = std::int64_t{1} << 60;

  std::int64_t end_bytes_ = 0;
  bool overflowed_ = false;
};

// The product, or -1 where it does not fit.
std::int64_t Product(std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  // A zero anywhere makes the product zero, whatever the others would overflow to.
  if (std::find(factors.begin(), factors.end(), 0) != factors.end()) return 0;
  for (const std::int64_t factor : factors) product = CheckedMultiply(product, factor);
  return product;
}

template <typename View>
std::int64_t TensorBytes(const View& t) {
  return Product({t.batch, t.seqlen, t.heads, t.dim, SizeOf(t.dtype)});
}

template <typename View>
std::int64_t ScoreBytes(const View& t, std::int64_t element_bytes) {
  return Product({t.batch, t.heads, t.rows, t.cols, element_bytes});
}

template <typename T>
std::int64_t ArrayBytes(const std::vector<T>& array) {
  return static_cast<std::int64_t>(array.size() * sizeof(T));
}

std::int64_t LseBytes(const AttentionParams& p) {
  return Product({p.q.batch, p.num_heads, p.q.seqlen, std::int64_t{sizeof(float)}});
}

std::int64_t ProbsBytes(const AttentionParams& p) {
  return Product({p.batch_size, p.num_heads, p.seqlen_q, p.seqlen_k, std::int64_t{sizeof(float)}});
}

void SetLseStrides(const AttentionProblem& problem, AttentionParams& p) {
  const bool packed = !problem.cu_seqlens_q.empty();
  p.lse_head_stride = p.q.seqlen;
  // Does not fit only where a batch without sequences states an enormous length: nobody uses it.
  p.lse_batch_stride = packed ? 0 : CheckedMultiply(p.num_heads, p.q.seqlen);
}

absl::Status LayOutInputs(AttentionPlan& plan) {
  const AttentionProblem& problem = plan.problem;
  const AttentionParams& p = problem.params;
  BlockLayout block;
  plan.inputs = {block.Add(TensorBytes(p.q)), block.Add(TensorBytes(p.k)),
                 block.Add(TensorBytes(p.v)), block.Add(ScoreBytes(p.mask, 1)),
                 block.Add(ScoreBytes(p.bias, SizeOf(p.bias.dtype)))};
  plan.small_inputs = {
      block.Add(ArrayBytes(problem.cu_seqlens_q)), block.Add(ArrayBytes(problem.cu_seqlens_k)),
      block.Add(ArrayBytes(problem.lengths_q)),    block.Add(ArrayBytes(problem.lengths_k)),
      block.Add(ArrayBytes(problem.alibi_slopes)), block.Add(ArrayBytes(problem.sinks))};
  ASSIGN_OR_RETURN(plan.input_bytes, block.size_bytes("inputs"));
  return absl::OkStatus();
}

absl::Status LayOutOutputs(AttentionPlan& plan) {
  const AttentionProblem& problem = plan.problem;
  const AttentionParams& p = problem.params;
  BlockLayout block;
  plan.outputs = {block.Add(TensorBytes(p.out)), block.Add(problem.want_lse ? LseBytes(p) : 0),
                  block.Add(problem.want_probs ? ProbsBytes(p) : 0)};
  plan.diagnostics =
      block.Add(problem.want_diagnostics ? std::int64_t{sizeof(AttentionDiagnostics)} : 0);
  ASSIGN_OR_RETURN(plan.output_bytes, block.size_bytes("outputs"));
  return absl::OkStatus();
}

absl::Status LayOutWorkspace(const AttentionParams& p, const DeviceTraits& device,
                             AttentionPlan& plan) {
  const AttentionProblem& problem = plan.problem;
  BlockLayout block;
  // The diagnostics run after the kernel, in the same memory.
  block.Add(std::max(plan.kernel->workspace_bytes(p, device),
                     problem.want_diagnostics ? DiagnosticsWorkspaceBytes(p, device) : 0));
  plan.scratch_lse = block.Add(problem.want_diagnostics && !problem.want_lse ? LseBytes(p) : 0);
  ASSIGN_OR_RETURN(plan.workspace_bytes, block.size_bytes("workspace"));
  return absl::OkStatus();
}

// Parameters that say what is there, for those who look at sizes only: small arrays where they lie
// now, and for all else an address that nobody reads.
AttentionParams ParamsOfSizes(AttentionPlan& plan) {
  // Aligned as buffers are: kernels choose by the alignment of what they are given.
  alignas(kBufferAlignment) static std::byte never_read[1];
  AttentionParams p = BindParams(plan, never_read, never_read, never_read);
  AttentionProblem& problem = plan.problem;
  const auto data_or_null = [](auto& array) { return array.empty() ? nullptr : array.data(); };
  p.cu_seqlens_q = data_or_null(problem.cu_seqlens_q);
  p.cu_seqlens_k = data_or_null(problem.cu_seqlens_k);
  p.lengths_q = data_or_null(problem.lengths_q);
  p.lengths_k = data_or_null(problem.lengths_k);
  p.alibi_slopes = data_or_null(problem.alibi_slopes);
  p.sinks = data_or_null(problem.sinks);
  return p;
}

}  // namespace

absl::StatusOr<AttentionPlan> MakeAttentionPlan(AttentionProblem problem,
                                                const DeviceTraits& device) {
  AttentionPlan plan;
  plan.problem = std::move(problem);
  SetLseStrides(plan.problem, plan.problem.params);
  RETURN_IF_ERROR(LayOutInputs(plan));
  RETURN_IF_ERROR(LayOutOutputs(plan));
  const AttentionParams sizes = ParamsOfSizes(plan);
  const DeviceTraits runs_on = plan.problem.algorithm == "reference" ? DeviceTraits{} : device;
  ASSIGN_OR_RETURN(plan.kernel, SelectKernel(sizes, runs_on, plan.problem.algorithm));
  plan.runs_on_host = runs_on.backend != device.backend;
  RETURN_IF_ERROR(LayOutWorkspace(sizes, runs_on, plan));
  plan.flops = VisibleFlops(sizes);
  return plan;
}

MemoryNeed NeedOf(const AttentionPlan& plan, const DeviceInfo& device) {
  const std::int64_t blocks_bytes =
      RoundUpToBuffer(plan.input_bytes) + RoundUpToBuffer(plan.output_bytes);
  const std::int64_t workspace_bytes = RoundUpToBuffer(plan.workspace_bytes);
  if (device.unified_memory)
    return {.staging_bytes = blocks_bytes, .device_bytes = workspace_bytes};
  if (plan.runs_on_host)
    return {.staging_bytes = blocks_bytes + workspace_bytes, .device_bytes = 0};
  return {.staging_bytes = blocks_bytes, .device_bytes = blocks_bytes + workspace_bytes};
}

const char* NameOf(InputTensor tensor) {
  switch (tensor) {
    case InputTensor::kQ:
      return "q";
    case InputTensor::kK:
      return "k";
    case InputTensor::kV:
      return "v";
    case InputTensor::kMask:
      return "mask";
    case InputTensor::kBias:
      return "bias";
  }
  return "unknown";
}

const char* NameOf(OutputTensor tensor) {
  switch (tensor) {
    case OutputTensor::kOut:
      return "out";
    case OutputTensor::kLse:
      return "lse";
    case OutputTensor::kProbs:
      return "probs";
  }
  return "unknown";
}

std::string DescribeNeed(const AttentionPlan& plan) {
  std::vector<std::string> parts;
  const auto add = [&parts](const char* name, std::int64_t size_bytes) {
    if (size_bytes > 0) parts.push_back(absl::StrCat(name, " ", size_bytes));
  };
  for (int i = 0; i < kNumInputTensors; ++i)
    add(NameOf(static_cast<InputTensor>(i)), plan.inputs[i].size_bytes);
  for (int i = 0; i < kNumOutputTensors; ++i)
    add(NameOf(static_cast<OutputTensor>(i)), plan.outputs[i].size_bytes);
  add("workspace", plan.workspace_bytes);
  return absl::StrCat(absl::StrJoin(parts, ", "), " bytes");
}

AttentionParams BindParams(const AttentionPlan& plan, std::byte* input, std::byte* output,
                           std::byte* workspace) {
  const AttentionProblem& problem = plan.problem;
  AttentionParams p = problem.params;
  p.q.data = input + plan.input(InputTensor::kQ).offset_bytes;
  p.k.data = input + plan.input(InputTensor::kK).offset_bytes;
  p.v.data = input + plan.input(InputTensor::kV).offset_bytes;
  if (p.mask.cols > 0) {
    p.mask.data =
        reinterpret_cast<const std::uint8_t*>(input + plan.input(InputTensor::kMask).offset_bytes);
  }
  if (p.bias.cols > 0) p.bias.data = input + plan.input(InputTensor::kBias).offset_bytes;

  const auto bind_array = [&](SmallInput which, auto*& pointer) {
    const Extent& extent = plan.small_input(which);
    if (extent.size_bytes == 0) return;
    pointer =
        reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(input + extent.offset_bytes);
  };
  bind_array(SmallInput::kCuSeqlensQ, p.cu_seqlens_q);
  bind_array(SmallInput::kCuSeqlensK, p.cu_seqlens_k);
  bind_array(SmallInput::kLengthsQ, p.lengths_q);
  bind_array(SmallInput::kLengthsK, p.lengths_k);
  bind_array(SmallInput::kAlibiSlopes, p.alibi_slopes);
  bind_array(SmallInput::kSinks, p.sinks);

  p.out.data = output + plan.output(OutputTensor::kOut).offset_bytes;
  if (problem.want_lse) {
    p.lse = reinterpret_cast<float*>(output + plan.output(OutputTensor::kLse).offset_bytes);
  } else if (problem.want_diagnostics) {
    p.lse = reinterpret_cast<float*>(workspace + plan.scratch_lse.offset_bytes);
  }
  if (problem.want_probs)
    p.probs = reinterpret_cast<float*>(output + plan.output(OutputTensor::kProbs).offset_bytes);
  return p;
}

}  // namespace attnd
