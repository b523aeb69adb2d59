// What the server's machinery costs beside the computation: memory, threads, admission and the hop
// to a worker.
#include <cstdint>
#include <future>
#include <memory>
#include <utility>

#include "benchmark/benchmark.h"
#include "server/device/cpu/thread_pool.h"
#include "server/device/device.h"
#include "server/engine/engine.h"
#include "server/telemetry/metrics.h"
#include "tests/server/engine/simple_problem.h"

namespace attnd {
namespace {

void BM_AllocateStaging(benchmark::State& state) {
  const std::unique_ptr<Device> device = *CreateCpuDevice({});
  for (auto _ : state) benchmark::DoNotOptimize(device->AllocateStaging(state.range(0)));
}
BENCHMARK(BM_AllocateStaging)->Arg(4 << 10)->Arg(64 << 20);

// One loop of empty tasks, as many as there are threads.
void BM_ThreadPoolRun(benchmark::State& state) {
  ThreadPool pool(UsableProcessors());
  for (auto _ : state)
    pool.Run(pool.MaxParallelism(), [](std::int64_t i) { benchmark::DoNotOptimize(i); });
}
BENCHMARK(BM_ThreadPoolRun)->UseRealTime();

// Admission, computation and release of one problem of [seqlen, 16] by [seqlen, 16]. Up to 2e6
// operations (seqlen 176) it runs on the submitting thread, from there on on a worker.
void BM_AdmitAndCompute(benchmark::State& state) {
  const std::unique_ptr<Device> device = *CreateCpuDevice({});
  Metrics metrics({"0", "cpu", "benchmark"});
  const std::unique_ptr<Engine> engine = *CreateEngine({}, *device, &metrics);
  const AttentionPlan plan =
      *MakeAttentionPlan(MakeProblem(state.range(0), state.range(0), 16), device->info().traits);
  double compute_seconds = 0;
  for (auto _ : state) {
    std::promise<void> finished;
    engine->Admit(plan, {}, [&](absl::StatusOr<std::unique_ptr<AttentionJob>> job) {
      engine->Submit(*std::move(job), {}, [&](absl::StatusOr<std::unique_ptr<AttentionJob>> done) {
        compute_seconds += (*done)->seconds().stages.compute;
        done->reset();
        finished.set_value();
      });
    });
    finished.get_future().wait();
  }
  state.counters["compute"] = benchmark::Counter(
      compute_seconds / static_cast<double>(state.iterations()), benchmark::Counter::kDefaults);
}
BENCHMARK(BM_AdmitAndCompute)
    ->Arg(1)
    ->Arg(16)
    ->Arg(64)
    ->Arg(160)
    ->Arg(180)
    ->Arg(512)
    ->UseRealTime();

}  // namespace
}  // namespace attnd
