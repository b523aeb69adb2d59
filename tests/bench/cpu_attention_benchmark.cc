// BM_FusedAttention: the CPU's fused attention on prefill and decode shapes; BM_MaskedAttention:
// the same under boolean masks.
//   cpu_attention_benchmark --benchmark_filter=/threads:1 --benchmark_repetitions=5
// Counters: FLOPs a second (half the matrix where causal) and bytes of k and v a second.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "kernels/attention_shape.h"
#include "kernels/cpu/fused_attention.h"
#include "server/device/cpu/thread_pool.h"

namespace attnd {
namespace {

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

// A problem of contiguous [batch, seqlen, heads, dim] tensors, its memory included.
class Problem {
 public:
  explicit Problem(const Shape& s)
      : q_(Fill(s.batch_size * s.seqlen_q * s.num_heads * s.head_dim, s.dtype, 1)),
        k_(Fill(s.batch_size * s.seqlen_k * s.num_kv_heads * s.head_dim, s.dtype, 2)),
        v_(Fill(s.batch_size * s.seqlen_k * s.num_kv_heads * s.head_dim, s.dtype, 3)),
        out_(q_.size()) {
    params_.batch_size = s.batch_size;
    params_.seqlen_q = s.seqlen_q;
    params_.seqlen_k = s.seqlen_k;
    params_.num_heads = s.num_heads;
    params_.num_kv_heads = s.num_kv_heads;
    params_.head_dim = params_.head_dim_v = s.head_dim;
    params_.q = View<TensorView>(q_.data(), s, s.seqlen_q, s.num_heads);
    params_.k = View<TensorView>(k_.data(), s, s.seqlen_k, s.num_kv_heads);
    params_.v = View<TensorView>(v_.data(), s, s.seqlen_k, s.num_kv_heads);
    params_.out = View<MutableTensorView>(out_.data(), s, s.seqlen_q, s.num_heads);
    params_.softmax_scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
    params_.causal = s.causal;
  }

  // Query i may see key j where allowed(i, j).
  template <typename Allowed>
  void SetMask(Allowed allowed) {
    const std::int64_t rows = params_.seqlen_q;
    const std::int64_t cols = params_.seqlen_k;
    mask_.resize(static_cast<std::size_t>(rows * cols));
    for (std::int64_t i = 0; i < rows * cols; ++i) mask_[i] = allowed(i / cols, i % cols);
    params_.mask = {.data = mask_.data(),
                    .batch = 1,
                    .heads = 1,
                    .rows = rows,
                    .cols = cols,
                    .row_stride = cols};
  }

  const AttentionParams& params() const { return params_; }
  std::int64_t KeyValueBytes() const { return static_cast<std::int64_t>(k_.size() + v_.size()); }

 private:
  static std::vector<char> Fill(std::int64_t count, DataType dtype, std::uint32_t seed) {
    std::vector<char> bytes(static_cast<std::size_t>(count * SizeOf(dtype)));
    for (std::int64_t i = 0; i < count; ++i) {
      seed = seed * 1664525u + 1013904223u;
      StoreElement(bytes.data(), dtype, i, static_cast<float>(seed >> 8) * 0x1p-23f - 1.0f);
    }
    return bytes;
  }

  template <typename V, typename Pointer>
  static V View(Pointer data, const Shape& s, std::int64_t seqlen, std::int64_t heads) {
    return {.data = data,
            .dtype = s.dtype,
            .batch = s.batch_size,
            .seqlen = seqlen,
            .heads = heads,
            .dim = s.head_dim,
            .batch_stride = seqlen * heads * s.head_dim,
            .seq_stride = heads * s.head_dim,
            .head_stride = s.head_dim};
  }

  std::vector<char> q_, k_, v_, out_;
  std::vector<std::uint8_t> mask_;
  AttentionParams params_;
};

std::string NameOfShape(const Shape& s, int threads) {
  return absl::StrCat("BM_FusedAttention/", std::string(NameOf(s.dtype)), "/b:", s.batch_size,
                      "/h:", s.num_heads, "_", s.num_kv_heads, "/q:", s.seqlen_q, "/k:", s.seqlen_k,
                      "/d:", s.head_dim, s.causal ? "/causal" : "/full", "/threads:", threads);
}

void Run(benchmark::State& state, const Problem& problem, int threads) {
  ThreadPool pool(threads);
  const KernelImplementation kernel = cpu::FusedImplementation();
  ExecutionContext context;
  context.parallel_for = threads > 1 ? &pool : nullptr;
  context.workspace_bytes = kernel.workspace_bytes(problem.params(), context.device);
  std::vector<float> workspace(
      static_cast<std::size_t>(context.workspace_bytes / SizeOf(DataType::kFloat32)));
  context.workspace = workspace.data();
  for (auto _ : state) {
    const absl::Status status = kernel.run(problem.params(), context);
    if (!status.ok()) {
      state.SkipWithError(std::string(status.message()).c_str());
      return;
    }
  }
  state.counters["flops"] = benchmark::Counter(AttentionFlops(problem.params()),
                                               benchmark::Counter::kIsIterationInvariantRate);
  state.SetBytesProcessed(state.iterations() * problem.KeyValueBytes());
}

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (DataType dtype : {DataType::kFloat32, DataType::kFloat16, DataType::kBFloat16}) {
    for (std::int64_t head_dim : {64, 128}) {
      for (std::int64_t seqlen : {512, 2048}) {
        shapes.push_back({1, 8, 8, seqlen, seqlen, head_dim, dtype, false});
        shapes.push_back({1, 8, 8, seqlen, seqlen, head_dim, dtype, true});
      }
    }
    shapes.push_back({1, 8, 8, 1, 16384, 128, dtype, false});
    shapes.push_back({1, 32, 8, 1, 16384, 128, dtype, false});
    shapes.push_back({1, 1, 1, 16, 16, 64, dtype, false});
  }
  return shapes;
}

void RegisterBenchmarks() {
  std::vector<int> thread_counts = {1};
  if (UsableProcessors() > 1) thread_counts.push_back(UsableProcessors());
  for (const Shape& shape : Shapes()) {
    for (int threads : thread_counts) {
      auto* benchmark = benchmark::RegisterBenchmark(
          NameOfShape(shape, threads).c_str(),
          [shape, threads](benchmark::State& state) { Run(state, Problem(shape), threads); });
      benchmark->Unit(benchmark::kMicrosecond);
      // One thread is charged its processor time, which other processes do not add to.
      if (threads > 1) benchmark->UseRealTime();
    }
  }
}

using MaskFunction = bool (*)(std::int64_t i, std::int64_t j);

struct NamedMask {
  const char* name;
  MaskFunction allowed;  // nullptr: no mask
};

constexpr NamedMask kMasks[] = {
    {"none", nullptr},
    {"all", [](std::int64_t, std::int64_t) { return true; }},
    {"every_other_key", [](std::int64_t, std::int64_t j) { return j % 2 == 0; }},
    {"lower_triangle", [](std::int64_t i, std::int64_t j) { return j <= i; }},
    {"documents_of_512", [](std::int64_t i, std::int64_t j) { return i / 512 == j / 512; }},
    {"nothing", [](std::int64_t, std::int64_t) { return false; }}};

constexpr Shape kMaskedShape = {1, 8, 8, 2048, 2048, 64, DataType::kFloat32, false};

void RegisterMaskedBenchmarks() {
  for (const NamedMask& mask : kMasks) {
    benchmark::RegisterBenchmark(absl::StrCat("BM_MaskedAttention/", mask.name).c_str(),
                                 [mask](benchmark::State& state) {
                                   Problem problem(kMaskedShape);
                                   if (mask.allowed != nullptr) problem.SetMask(mask.allowed);
                                   Run(state, problem, 1);
                                 })
        ->Unit(benchmark::kMicrosecond);
  }
}

// Before benchmark_main looks at its flags.
[[maybe_unused]] const bool registered = (RegisterBenchmarks(), RegisterMaskedBenchmarks(), true);

}  // namespace
}  // namespace attnd
