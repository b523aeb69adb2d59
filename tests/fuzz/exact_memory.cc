#include "tests/fuzz/exact_memory.h"

#include <cstring>
#include <new>

namespace attnd::fuzz {
namespace {

constexpr std::align_val_t kAlignment{256};

}  // namespace

void ExactMemory::Free::operator()(std::byte* block) const {
  ::operator delete[](block, kAlignment);
}

std::byte* ExactMemory::Allocate(std::int64_t size_bytes) {
  blocks_.emplace_back(
      static_cast<std::byte*>(::operator new[](static_cast<std::size_t>(size_bytes), kAlignment)));
  return blocks_.back().get();
}

template <typename T>
const T* ExactMemory::Copy(const std::vector<T>& array) {
  if (array.empty()) return nullptr;
  std::byte* const block = Allocate(static_cast<std::int64_t>(array.size() * sizeof(T)));
  std::memcpy(block, array.data(), array.size() * sizeof(T));
  return reinterpret_cast<const T*>(block);
}

ExactMemory::ExactMemory(const AttentionPlan& plan, const AttendRequestView& request)
    : params_(plan.problem.params) {
  const AttentionProblem& problem = plan.problem;
  const auto input = [&](InputTensor tensor) {
    std::byte* const block = Allocate(plan.input(tensor).size_bytes);
    request.tensors[static_cast<int>(tensor)].CopyTo(block);
    return block;
  };
  params_.q.data = input(InputTensor::kQ);
  params_.k.data = input(InputTensor::kK);
  params_.v.data = input(InputTensor::kV);
  if (params_.mask.cols > 0)
    params_.mask.data = reinterpret_cast<const std::uint8_t*>(input(InputTensor::kMask));
  if (params_.bias.cols > 0) params_.bias.data = input(InputTensor::kBias);
  params_.cu_seqlens_q = Copy(problem.cu_seqlens_q);
  params_.cu_seqlens_k = Copy(problem.cu_seqlens_k);
  params_.lengths_q = Copy(problem.lengths_q);
  params_.lengths_k = Copy(problem.lengths_k);
  params_.alibi_slopes = Copy(problem.alibi_slopes);
  params_.sinks = Copy(problem.sinks);

  const auto output = [&](OutputTensor tensor) { return Allocate(plan.output(tensor).size_bytes); };
  params_.out.data = output(OutputTensor::kOut);
  if (problem.want_lse) params_.lse = reinterpret_cast<float*>(output(OutputTensor::kLse));
  if (problem.want_probs) params_.probs = reinterpret_cast<float*>(output(OutputTensor::kProbs));
  workspace_ = Allocate(plan.workspace_bytes);
}

}  // namespace attnd::fuzz
