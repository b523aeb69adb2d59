// How the contract suite runs an implementation, whichever device it computes on.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "kernels/diagnostics.h"
#include "kernels/kernel_registry.h"
#include "kernels/merge.h"
#include "tests/testing/problem.h"

namespace attnd::testing {

class KernelRunner {
 public:
  virtual ~KernelRunner() = default;

  // Unique among the runners of a program; letters, digits and underscores.
  virtual std::string name() const = 0;
  // As KernelImplementation::supports.
  virtual absl::Status Supports(const AttentionParams& p) const = 0;
  // Computes `problem` and leaves the results in problem.outputs(), every byte of which the
  // computation had before it, poison included. Fails with Internal if the workspace's guard was
  // hit.
  virtual absl::Status Run(Problem& problem) = 0;
  // RunDiagnostics over what Run left in `problem`; *report lies in host memory.
  virtual absl::Status RunDiagnostics(Problem& problem, AttentionDiagnostics* report) = 0;
  // RunMerge; all pointers lie in host memory.
  virtual absl::Status RunMerge(const MergeParams& p) = 0;
};

// Runs a CPU implementation. `parallel_for` may be nullptr and outlives the runner.
std::unique_ptr<KernelRunner> MakeCpuRunner(const KernelImplementation& kernel,
                                            ParallelFor* parallel_for);

}  // namespace attnd::testing
