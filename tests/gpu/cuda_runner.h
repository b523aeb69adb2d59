// Runs a CUDA implementation on problems in host memory, for the contract suite.
#pragma once

#include <memory>
#include <string>

#include "kernels/kernel_registry.h"
#include "tests/testing/kernel_runner.h"

namespace attnd::testing {

// `name` names the runner. Copies each problem to device 0, poison and guards included, runs
// `kernel` there, checks the workspace's guards and copies the results back.
std::unique_ptr<KernelRunner> MakeCudaRunner(std::string name, const KernelImplementation& kernel,
                                             const DeviceTraits& device);
// The same under the kernel's own name.
std::unique_ptr<KernelRunner> MakeCudaRunner(const KernelImplementation& kernel,
                                             const DeviceTraits& device);

}  // namespace attnd::testing
