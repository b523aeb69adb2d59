// Puts every CPU implementation through the contract suite.
#include <gtest/gtest.h>

#include "kernels/kernel_registry.h"
#include "tests/testing/contract_cases.h"
#include "tests/testing/threaded_parallel_for.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  attnd::testing::ThreadedParallelFor parallel_for(2);
  for (const attnd::KernelImplementation& kernel :
       attnd::ImplementationsFor(attnd::Backend::kCpu)) {
    attnd::testing::RegisterContractTests(attnd::testing::MakeCpuRunner(kernel, &parallel_for));
  }
  return RUN_ALL_TESTS();
}
