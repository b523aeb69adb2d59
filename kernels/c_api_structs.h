// From the structs of the C ABI, of this version or an older one, to those of the library.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/attention_params.h"
#include "kernels/attnd_kernels.h"
#include "kernels/kernel_registry.h"
#include "kernels/merge.h"
#include "kernels/parallel_for.h"

namespace attnd {

// The caller's struct with defaults in place of the fields that it is too short for.
// InvalidArgument for nullptr, a size that no version had, or a longer struct than this library
// knows.
absl::StatusOr<attnd_attention_params> ReadStruct(const attnd_attention_params* params);
absl::StatusOr<attnd_merge_params> ReadStruct(const attnd_merge_params* params);
absl::StatusOr<attnd_execution> ReadStruct(const attnd_execution* execution);
absl::Status CheckStruct(const attnd_kernel_info* info);

// The problem, having passed ValidateShape, with every pointer it needs. InvalidArgument names what
// is wrong.
absl::StatusOr<AttentionParams> ToAttentionParams(const attnd_attention_params& params);
absl::StatusOr<MergeParams> ToMergeParams(const attnd_merge_params& params);
absl::StatusOr<Backend> ToBackend(std::int64_t backend);

// Where to run; `parallel_for` outlives the result.
absl::StatusOr<ExecutionContext> ToExecutionContext(const attnd_execution& execution,
                                                    ParallelFor* parallel_for);

// The caller's function as a ParallelFor. What a task throws is thrown again when Run is over, on
// the thread that called it, and passes through none of the caller's code.
class CallerParallelFor : public ParallelFor {
 public:
  CallerParallelFor(attnd_parallel_for function, void* context)
      : function_(function), context_(context) {}

  void Run(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> task) override;
  // How many threads the caller has is not known.
  int MaxParallelism() const override;

 private:
  attnd_parallel_for function_;
  void* context_;
};

}  // namespace attnd
