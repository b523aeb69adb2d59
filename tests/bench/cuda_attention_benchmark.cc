// BM_CudaAttention: every CUDA implementation on prefill and decode shapes.
//   cuda_attention_benchmark --benchmark_filter=fused --benchmark_repetitions=5
// Time is that of device events around a run of launches. The launches take turns on copies of the
// inputs that are together larger than the L2 cache. Counters: FLOPs a second (half the matrix
// where causal), bytes of q, k, v and out a second, and the device memory that one problem takes.
#include <benchmark/benchmark.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention_shape.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/kernel_registry.h"
#include "kernels/status_macros.h"
#include "tests/gpu/device_memory.h"

namespace attnd::testing {
namespace {

constexpr std::int64_t kBytesInRotation = 256 << 20;
constexpr std::int64_t kMaxCopies = 16;
constexpr int kLaunchesPerIteration = 16;

struct Shape {
  std::int64_t batch_size;
  std::int64_t num_heads;
  std::int64_t num_kv_heads;
  std::int64_t seqlen_q;
  std::int64_t seqlen_k;
  std::int64_t head_dim;
  DataType dtype;
  bool causal;
};

std::string NameOfRun(const KernelImplementation& kernel, const Shape& s) {
  return absl::StrCat("BM_CudaAttention/", std::string(kernel.name), "/",
                      std::string(NameOf(s.dtype)), "/b:", s.batch_size, "/h:", s.num_heads, "_",
                      s.num_kv_heads, "/q:", s.seqlen_q, "/k:", s.seqlen_k, "/d:", s.head_dim,
                      s.causal ? "/causal" : "/full");
}

template <typename View>
View ContiguousView(const Shape& s, std::int64_t seqlen, std::int64_t heads) {
  View view;
  view.dtype = s.dtype;
  view.batch = s.batch_size;
  view.seqlen = seqlen;
  view.heads = heads;
  view.dim = s.head_dim;
  view.head_stride = s.head_dim;
  view.seq_stride = heads * view.head_stride;
  view.batch_stride = seqlen * view.seq_stride;
  return view;
}

template <typename View>
std::int64_t BytesOf(const View& view) {
  return view.batch * view.batch_stride * SizeOf(view.dtype);
}

AttentionParams ParamsOf(const Shape& s) {
  AttentionParams p;
  p.batch_size = s.batch_size;
  p.seqlen_q = s.seqlen_q;
  p.seqlen_k = s.seqlen_k;
  p.num_heads = s.num_heads;
  p.num_kv_heads = s.num_kv_heads;
  p.head_dim = p.head_dim_v = s.head_dim;
  p.q = ContiguousView<TensorView>(s, s.seqlen_q, s.num_heads);
  p.k = p.v = ContiguousView<TensorView>(s, s.seqlen_k, s.num_kv_heads);
  p.out = ContiguousView<MutableTensorView>(s, s.seqlen_q, s.num_heads);
  p.softmax_scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
  p.causal = s.causal;
  return p;
}

// Values in [-1, 1), the same in every run: real data draws more power than zeros, and runs slower.
std::vector<std::byte> RandomElements(std::int64_t size_bytes, DataType dtype) {
  std::vector<std::byte> bytes(size_bytes);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < size_bytes / SizeOf(dtype); ++i) {
    state = state * 1664525u + 1013904223u;
    StoreElement(bytes.data(), dtype, i, static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
  }
  return bytes;
}

// Copies of one problem in device memory, and a workspace that they share.
class RotatedProblem {
 public:
  static absl::StatusOr<RotatedProblem> Create(const KernelImplementation& kernel,
                                               const Shape& shape, const DeviceTraits& device) {
    const AttentionParams p = ParamsOf(shape);
    const std::int64_t inputs = BytesOf(p.q) + BytesOf(p.k) + BytesOf(p.v);
    const std::int64_t copy_bytes = inputs + BytesOf(p.out);
    const std::int64_t copies =
        std::clamp(kBytesInRotation / copy_bytes, std::int64_t{1}, kMaxCopies);
    ASSIGN_OR_RETURN(DeviceMemory tensors, DeviceMemory::Create(copies * copy_bytes));
    ASSIGN_OR_RETURN(DeviceMemory workspace,
                     DeviceMemory::Create(kernel.workspace_bytes(p, device)));
    const std::vector<std::byte> values = RandomElements(inputs, shape.dtype);
    for (std::int64_t i = 0; i < copies; ++i)
      RETURN_IF_ERROR(CopyBytes(tensors.data() + i * copy_bytes, values.data(), inputs));
    return RotatedProblem(p, copies, copy_bytes, std::move(tensors), std::move(workspace));
  }

  // The problem in the memory of copy `turn`, modulo the number of copies.
  AttentionParams Turn(std::int64_t turn) const {
    AttentionParams p = params_;
    std::byte* const base = tensors_.data() + turn % copies_ * copy_bytes_;
    p.q.data = base;
    p.k.data = base + BytesOf(p.q);
    p.v.data = base + BytesOf(p.q) + BytesOf(p.k);
    p.out.data = base + BytesOf(p.q) + BytesOf(p.k) + BytesOf(p.v);
    return p;
  }

  const AttentionParams& params() const { return params_; }
  const DeviceMemory& workspace() const { return workspace_; }
  std::int64_t tensor_bytes() const { return copy_bytes_; }

 private:
  RotatedProblem(const AttentionParams& params, std::int64_t copies, std::int64_t copy_bytes,
                 DeviceMemory tensors, DeviceMemory workspace)
      : params_(params),
        copies_(copies),
        copy_bytes_(copy_bytes),
        tensors_(std::move(tensors)),
        workspace_(std::move(workspace)) {}

  AttentionParams params_;
  std::int64_t copies_;
  std::int64_t copy_bytes_;
  DeviceMemory tensors_;
  DeviceMemory workspace_;
};

// Two events on the default stream and the time between them.
class EventTimer {
 public:
  EventTimer() {
    cudaEventCreate(&start_);
    cudaEventCreate(&stop_);
  }
  ~EventTimer() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;

  absl::Status Start() {
    RETURN_IF_CUDA_ERROR(cudaEventRecord(start_));
    return absl::OkStatus();
  }
  absl::StatusOr<double> Stop() {
    float milliseconds = 0;
    RETURN_IF_CUDA_ERROR(cudaEventRecord(stop_));
    RETURN_IF_CUDA_ERROR(cudaEventSynchronize(stop_));
    RETURN_IF_CUDA_ERROR(cudaEventElapsedTime(&milliseconds, start_, stop_));
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_ = nullptr;
};

// Seconds of one launch, averaged over a run of them.
absl::StatusOr<double> SecondsPerLaunch(const KernelImplementation& kernel,
                                        const RotatedProblem& problem,
                                        const ExecutionContext& context, EventTimer& timer) {
  RETURN_IF_ERROR(timer.Start());
  for (int launch = 0; launch < kLaunchesPerIteration; ++launch)
    RETURN_IF_ERROR(kernel.run(problem.Turn(launch), context));
  ASSIGN_OR_RETURN(const double seconds, timer.Stop());
  return seconds / kLaunchesPerIteration;
}

absl::Status Measure(benchmark::State& state, const KernelImplementation& kernel,
                     const Shape& shape, const DeviceTraits& device) {
  ASSIGN_OR_RETURN(const RotatedProblem problem, RotatedProblem::Create(kernel, shape, device));
  ExecutionContext context;
  context.device = device;
  context.workspace = problem.workspace().data();
  context.workspace_bytes = problem.workspace().size_bytes();
  EventTimer timer;
  RETURN_IF_ERROR(SecondsPerLaunch(kernel, problem, context, timer).status());  // warm-up
  for (auto _ : state) {
    ASSIGN_OR_RETURN(const double seconds, SecondsPerLaunch(kernel, problem, context, timer));
    state.SetIterationTime(seconds);
  }
  state.counters["flops"] = benchmark::Counter(AttentionFlops(problem.params()),
                                               benchmark::Counter::kIsIterationInvariantRate);
  state.counters["device_bytes"] =
      static_cast<double>(problem.tensor_bytes() + problem.workspace().size_bytes());
  state.SetBytesProcessed(state.iterations() * problem.tensor_bytes());
  return absl::OkStatus();
}

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32}) {
    for (std::int64_t head_dim : {64, 128, 256}) {
      for (std::int64_t seqlen : {512, 2048}) {
        const std::int64_t heads = 2048 / head_dim;
        shapes.push_back({8192 / seqlen, heads, heads, seqlen, seqlen, head_dim, dtype, false});
        shapes.push_back({8192 / seqlen, heads, heads, seqlen, seqlen, head_dim, dtype, true});
      }
    }
    shapes.push_back({1, 32, 32, 128, 128, 128, dtype, true});
    shapes.push_back({16, 32, 8, 1, 8192, 128, dtype, false});
  }
  return shapes;
}

void RegisterBenchmarks() {
  const std::optional<DeviceTraits> device = CudaDeviceTraits();
  if (!device.has_value()) return;
  for (const KernelImplementation& kernel : ImplementationsFor(Backend::kCuda)) {
    for (const Shape& shape : Shapes()) {
      if (!kernel.supports(ParamsOf(shape), *device).ok()) continue;
      benchmark::RegisterBenchmark(NameOfRun(kernel, shape).c_str(),
                                   [&kernel, shape, device](benchmark::State& state) {
                                     const absl::Status status =
                                         Measure(state, kernel, shape, *device);
                                     if (!status.ok())
                                       state.SkipWithError(std::string(status.message()).c_str());
                                   })
          ->UseManualTime()
          ->Unit(benchmark::kMicrosecond);
    }
  }
}

// Before benchmark_main looks at its flags.
[[maybe_unused]] const bool registered = (RegisterBenchmarks(), true);

}  // namespace
}  // namespace attnd::testing
