#include "kernels/cuda/diagnostics/diagnostics.h"
#include "kernels/cuda/diagnostics/warp_row.cuh"
#include "kernels/online_softmax.h"
#include "kernels/row_scores.h"

namespace attnd::cuda {
namespace {

// Floats as integers of the same order, so that integer atomics find minima and maxima; every
// figure is one of these or a count, so that the order of arrival does not matter. NaN takes no
// part.
__device__ unsigned Ordered(float value) {
  const unsigned bits = __float_as_uint(value);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ float FromOrdered(unsigned ordered) {
  return __uint_as_float(ordered & 0x80000000u ? ordered & 0x7fffffffu : ~ordered);
}

struct Minimum {
  unsigned ordered;
  __device__ void Add(float value) {
    if (!isnan(value)) atomicMin(&ordered, Ordered(value));
  }
};

struct Maximum {
  unsigned ordered;
  __device__ void Add(float value) {
    if (!isnan(value)) atomicMax(&ordered, Ordered(value));
  }
};

struct Totals {
  Minimum score_min, lse_min;
  Maximum score_max, lse_max, largest_weight;
  unsigned long long rows_fully_masked, nonfinite_q, nonfinite_k, nonfinite_v;
};

__global__ void ClearTotals(Totals* totals) {
  const float infinity = -NegativeInfinity();
  *totals = {};
  totals->score_min.ordered = totals->lse_min.ordered = Ordered(infinity);
  totals->score_max.ordered = totals->lse_max.ordered = Ordered(-infinity);
  totals->largest_weight.ordered = Ordered(0.0f);
}

__global__ void StoreReport(const Totals* totals, AttentionDiagnostics* result) {
  AttentionDiagnostics report;
  report.score_min = FromOrdered(totals->score_min.ordered);
  report.score_max = FromOrdered(totals->score_max.ordered);
  report.lse_min = FromOrdered(totals->lse_min.ordered);
  report.lse_max = FromOrdered(totals->lse_max.ordered);
  report.largest_weight = FromOrdered(totals->largest_weight.ordered);
  report.rows_fully_masked = static_cast<std::int64_t>(totals->rows_fully_masked);
  report.nonfinite_q = static_cast<std::int64_t>(totals->nonfinite_q);
  report.nonfinite_k = static_cast<std::int64_t>(totals->nonfinite_k);
  report.nonfinite_v = static_cast<std::int64_t>(totals->nonfinite_v);
  *result = report;
}

// Adds a warp's number of non-finite elements to *count.
template <int kSlots>
__device__ void CountNonfinite(const LaneVector<kSlots>& vector, unsigned long long* count) {
  int nonfinite = 0;
#pragma unroll
  for (int i = 0; i < kSlots; ++i) nonfinite += !isfinite(vector.values[i]);
  const int total = __reduce_add_sync(0xffffffffu, nonfinite);
  if (total != 0 && threadIdx.x % 32 == 0) atomicAdd(count, static_cast<unsigned long long>(total));
}

template <typename Row>
__device__ RowScores ScoresOf(const Row& row) {
  RowScores scores;
  for (std::int64_t key = row.scorer.keys.begin; key < row.scorer.keys.end; ++key) {
    if (row.scorer.MaySee(key)) scores.Add(row.Score(key));
  }
  return scores;
}

// One warp a query row.
template <DataType kDtype, int kSlots>
__global__ void __launch_bounds__(32 * kWarpsPerBlock)
    InspectRows(const __grid_constant__ AttentionParams p, std::int64_t first_block,
                Totals* totals) {
  const std::int64_t index = (first_block + blockIdx.x) * kWarpsPerBlock + threadIdx.x / 32;
  if (index >= p.batch_size * p.num_heads * p.seqlen_q) return;
  WarpRow<kDtype, kSlots> row(p, index);
  if (row.row >= row.bounds.seqlen_q) return;
  row.Load();
  CountNonfinite(row.q, &totals->nonfinite_q);
  const RowScores scores = ScoresOf(row);
  if (threadIdx.x % 32 != 0) return;
  if (!scores.attends) {
    atomicAdd(&totals->rows_fully_masked, 1ull);
    return;
  }
  const float lse = p.lse[LseOffset(p, row.bounds, row.head, row.row)];
  const float sink = p.sinks != nullptr ? p.sinks[row.head] : NegativeInfinity();
  totals->score_min.Add(scores.smallest);
  totals->score_max.Add(scores.largest);
  totals->lse_min.Add(lse);
  totals->lse_max.Add(lse);
  totals->largest_weight.Add(scores.LargestWeight(sink));
}

// One warp a key of one key/value head: seqlen_k fastest, then heads, then sequences.
template <DataType kDtype, int kSlots>
__global__ void __launch_bounds__(32 * kWarpsPerBlock)
    InspectKeys(const __grid_constant__ AttentionParams p, std::int64_t first_block,
                Totals* totals) {
  const std::int64_t index = (first_block + blockIdx.x) * kWarpsPerBlock + threadIdx.x / 32;
  if (index >= p.batch_size * p.num_kv_heads * p.seqlen_k) return;
  const std::int64_t key = index % p.seqlen_k;
  const std::int64_t kv_head = index / p.seqlen_k % p.num_kv_heads;
  const SequenceBounds s = BoundsOf(p, index / p.seqlen_k / p.num_kv_heads);
  if (key >= s.seqlen_k) return;
  CountNonfinite(LoadRow<kDtype, kSlots>(
                     p.k.data, RowOffset(p.k, s.k_batch, s.k_begin, key, kv_head), p.head_dim),
                 &totals->nonfinite_k);
  CountNonfinite(LoadRow<kDtype, kSlots>(
                     p.v.data, RowOffset(p.v, s.k_batch, s.k_begin, key, kv_head), p.head_dim_v),
                 &totals->nonfinite_v);
}

template <typename Kernel>
cudaError_t LaunchOverRows(std::int64_t rows, Kernel kernel, const AttentionParams& p,
                           Totals* totals, cudaStream_t stream) {
  return LaunchInRanges((rows + kWarpsPerBlock - 1) / kWarpsPerBlock,
                        [&](unsigned blocks, std::int64_t first) {
                          kernel<<<blocks, 32 * kWarpsPerBlock, 0, stream>>>(p, first, totals);
                        });
}

}  // namespace

std::int64_t DiagnosticsBytes() { return sizeof(Totals); }

cudaError_t LaunchDiagnostics(const AttentionParams& p, void* workspace,
                              AttentionDiagnostics* result, cudaStream_t stream) {
  auto* const totals = static_cast<Totals*>(workspace);
  ClearTotals<<<1, 1, 0, stream>>>(totals);
  const cudaError_t error = DispatchWarpRows(p, [&]<DataType kDtype, int kSlots>() {
    const std::int64_t rows = p.batch_size * p.num_heads * p.seqlen_q;
    const std::int64_t keys = p.batch_size * p.num_kv_heads * p.seqlen_k;
    const cudaError_t rows_error =
        LaunchOverRows(rows, InspectRows<kDtype, kSlots>, p, totals, stream);
    return rows_error != cudaSuccess
               ? rows_error
               : LaunchOverRows(keys, InspectKeys<kDtype, kSlots>, p, totals, stream);
  });
  if (error != cudaSuccess) return error;
  StoreReport<<<1, 1, 0, stream>>>(totals, result);
  return cudaGetLastError();
}

}  // namespace attnd::cuda
