// BM_SmallProblem: CPU implementations on problems so small that set-up may outweigh the
// arithmetic: the measurement behind the dispatcher's choice. One thread, eight heads of 64,
// float32.
#include <benchmark/benchmark.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/kernel_registry.h"
#include "tests/testing/problem.h"

namespace attnd {
namespace {

void BM_SmallProblem(benchmark::State& state, const KernelImplementation& kernel) {
  testing::ProblemSpec spec;
  spec.seqlen_q = state.range(0);
  spec.seqlen_k = state.range(1);
  spec.num_heads = spec.num_kv_heads = 8;
  testing::Problem problem(spec);
  const AttentionParams p = problem.params();
  for (auto _ : state) {
    const absl::Status status = kernel.run(p, ExecutionContext{});
    if (!status.ok()) state.SkipWithError(status.ToString().c_str());
  }
}

void RegisterAll() {
  for (const KernelImplementation& kernel : ImplementationsFor(Backend::kCpu)) {
    if (kernel.algorithm != "fused" && kernel.algorithm != "online") continue;
    auto* benchmark = benchmark::RegisterBenchmark(
        absl::StrCat("BM_SmallProblem/", kernel.algorithm.data()).c_str(),
        [&kernel](benchmark::State& state) { BM_SmallProblem(state, kernel); });
    for (std::int64_t seqlen : {1, 2, 4, 8, 16, 32}) {
      benchmark->Args({1, seqlen})->Args({seqlen, seqlen});
    }
    benchmark->Args({1, 128})->Args({1, 512})->Args({64, 64});
  }
}

const bool registered = (RegisterAll(), true);

}  // namespace
}  // namespace attnd
