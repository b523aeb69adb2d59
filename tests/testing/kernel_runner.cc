#include "tests/testing/kernel_runner.h"

#include <algorithm>

#include "kernels/attention_shape.h"
#include "kernels/status_macros.h"
#include "tests/testing/arena.h"

namespace attnd::testing {
namespace {

class CpuRunner : public KernelRunner {
 public:
  CpuRunner(const KernelImplementation& kernel, ParallelFor* parallel_for)
      : kernel_(kernel), parallel_for_(parallel_for) {}

  std::string name() const override { return std::string(kernel_.name); }

  absl::Status Supports(const AttentionParams& p) const override {
    return kernel_.supports(p, DeviceTraits{});
  }

  absl::Status Run(Problem& problem) override {
    const AttentionParams p = problem.params();
    RETURN_IF_ERROR(ValidateShape(p));
    RETURN_IF_ERROR(Supports(p));
    ExecutionContext context;
    context.parallel_for = parallel_for_;
    context.workspace_bytes = kernel_.workspace_bytes(p, context.device);
    Arena workspace;
    const std::int64_t begin = workspace.Reserve(context.workspace_bytes);
    workspace.Allocate();
    context.workspace = workspace.data() + begin;
    RETURN_IF_ERROR(kernel_.run(p, context));
    const bool guards_whole = std::all_of(workspace.data(), workspace.data() + begin, IsPoison) &&
                              std::all_of(workspace.data() + begin + context.workspace_bytes,
                                          workspace.data() + workspace.size_bytes(), IsPoison);
    return guards_whole ? absl::OkStatus()
                        : absl::InternalError("bytes beside the workspace were written");
  }

  absl::Status RunDiagnostics(Problem& problem, AttentionDiagnostics* report) override {
    ExecutionContext context;
    context.parallel_for = parallel_for_;
    return attnd::RunDiagnostics(problem.params(), context, report);
  }

  absl::Status RunMerge(const MergeParams& p) override {
    ExecutionContext context;
    context.parallel_for = parallel_for_;
    return attnd::RunMerge(p, context);
  }

 private:
  static bool IsPoison(std::byte byte) { return byte == Arena::kPoison; }

  const KernelImplementation kernel_;
  ParallelFor* parallel_for_;
};

}  // namespace

std::unique_ptr<KernelRunner> MakeCpuRunner(const KernelImplementation& kernel,
                                            ParallelFor* parallel_for) {
  return std::make_unique<CpuRunner>(kernel, parallel_for);
}

}  // namespace attnd::testing
