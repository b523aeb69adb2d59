// A block of its own for each array of a problem, with not a byte more than it states, so that a
// sanitizer sees any step beyond.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/attention_params.h"
#include "server/engine/attention_plan.h"
#include "server/rpc/attend_messages.h"

namespace attnd::fuzz {

class ExactMemory {
 public:
  // Copies the tensors of `request` and the arrays of the plan's problem. Tensors have the sizes
  // that the plan states.
  ExactMemory(const AttentionPlan& plan, const AttendRequestView& request);

  const AttentionParams& params() const { return params_; }
  std::byte* workspace() const { return workspace_; }

 private:
  // 256-byte aligned, as device memory is.
  std::byte* Allocate(std::int64_t size_bytes);
  template <typename T>
  const T* Copy(const std::vector<T>& array);

  struct Free {
    void operator()(std::byte* block) const;
  };
  std::vector<std::unique_ptr<std::byte[], Free>> blocks_;
  AttentionParams params_;
  std::byte* workspace_ = nullptr;
};

}  // namespace attnd::fuzz
