// Finishing two rows a thread: division by the denominator, lse, and stores to global memory.
#pragma once

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/sm90/log2_units.h"
#include "kernels/cuda/sm90/row_softmax.cuh"
#include "kernels/cuda/sm90/score_unit.cuh"
#include "kernels/cuda/sm90/tile_work.cuh"

namespace attnd::cuda::sm90 {

// Transposes the 4 x 4 matrix whose column l is lane l of a quad's `values`: afterwards lane l
// holds row l. Turns four pairs of columns from four groups into 8 consecutive columns of one
// group: a 16-byte store.
__device__ __forceinline__ void TransposeInQuad(std::uint32_t (&values)[4]) {
#pragma unroll
  for (int step = 2; step >= 1; step /= 2) {
    const bool upper = (threadIdx.x & step) != 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((i & step) != 0) continue;
      const std::uint32_t sent = upper ? values[i] : values[i + step];
      const std::uint32_t received = __shfl_xor_sync(0xffffffff, sent, step);
      values[i] = upper ? received : values[i];
      values[i + step] = upper ? values[i + step] : received;
    }
  }
}

// How to turn a row's accumulator into its result.
struct RowResult {
  float factor;  // multiplies the accumulator
  float lse;     // natural log
  bool empty;    // nothing was attended to: the result is 0 whatever the accumulator holds
};

// `max`: the row's maximum in natural units. `sink`: one more score without a value, in natural
// units, or nullptr. A sink may be as large as float32 holds: differences change units, not scores.
__device__ __forceinline__ RowResult FinishRow(float max, float sum, const float* sink) {
  const bool empty = sum == 0.0f;
  float rescale = 1.0f;
  if (sink != nullptr) {
    const float with_sink = fmaxf(max, *sink);
    const float reference = with_sink == NegativeInfinity() ? 0.0f : with_sink;
    rescale = ptx::Exp2((max - reference) * kLog2E);
    sum = sum * rescale + ptx::Exp2((*sink - reference) * kLog2E);
    max = with_sink;
  }
  if (sum == 0.0f) return {0.0f, NegativeInfinity(), true};
  // Some score had weight 1, until others came to weigh more: sum is 1 or more, where the fast
  // forms are good to 2 units in the last place.
  return {__fdividef(rescale, sum), __fmaf_rn(__log2f(sum), kLn2, max), empty};
}

// What a warpgroup needs of a TileWork to store its 64 rows.
struct Destination {
  int row;  // coordinates of the first
  int head;
  int batch;
  int live_rows;    // rows within the sequence's length
  int stored_rows;  // rows within its room; those past the length become 0, their lse -inf

  __device__ __forceinline__ Destination(const TileWork& work, int group)
      : row(work.q_row + 64 * group),
        head(work.head),
        batch(work.q_batch),
        live_rows(work.live_rows - 64 * group),
        stored_rows(work.stored_rows - 64 * group) {}

  __device__ __forceinline__ std::int64_t OutOffset(const AttentionParams& p) const {
    return RowOffset(p.out, batch, row, 0, head);
  }
  __device__ __forceinline__ std::int64_t LseOffset(const AttentionParams& p) const {
    SequenceBounds s;  // as if the rows were a sequence of their own
    s.q_batch = batch;
    s.q_begin = row;
    return attnd::LseOffset(p, s, head, 0);
  }
};

// The rows of a tile that attend to nothing: 0, and lse -inf or that of the sink alone. Run by one
// warp, each lane of which works out all of a row anew: it has few registers.
template <int kBlockM, int kHeadDimV>
__device__ __forceinline__ void StoreEmptyTile(const AttentionParams& p, const TileWork& work) {
  SequenceBounds s;  // as if the tile were a sequence of its own
  s.q_batch = work.q_batch;
  s.q_begin = work.q_row;
  const int element_bytes = p.out.dtype == DataType::kFloat32 ? 4 : 2;
#pragma unroll 1
  for (int row = threadIdx.x % 32; row < min(work.stored_rows, kBlockM); row += 32) {
    auto* const out = reinterpret_cast<uint4*>(
        static_cast<unsigned char*>(p.out.data) +
        RowOffset(p.out, s.q_batch, s.q_begin, row, work.head) * element_bytes);
#pragma unroll 1
    for (int i = kHeadDimV * element_bytes / 16 - 1; i >= 0; --i) out[i] = make_uint4(0, 0, 0, 0);
    if (p.lse != nullptr) {
      const bool joined = p.sinks != nullptr && row < work.live_rows;
      p.lse[LseOffset(p, s, work.head, row)] =
          FinishRow(NegativeInfinity(), 0.0f, joined ? p.sinks + work.head : nullptr).lse;
    }
  }
}

// This thread's first row among those of its warpgroup; the other is 8 below.
__device__ __forceinline__ int ThreadRowInGroup() {
  return threadIdx.x % 128 / 32 * 16 + threadIdx.x % 32 / 4;
}

// Turns this thread's accumulators into results, and stores lse; `unit` is that of the scores.
template <int kHeadDimV, typename Unit>
__device__ __forceinline__ void FinishRows(const AttentionParams& p, const Destination& to,
                                           Unit unit, const RowSoftmax& state,
                                           float (&o)[kHeadDimV / 2]) {
  constexpr float kMissing = static_cast<float>(1 << Unit::kHeadroom);  // in sums and o
  const float* const sink = p.sinks != nullptr ? p.sinks + to.head : nullptr;
  RowResult results[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int row = ThreadRowInGroup() + 8 * r;
    results[r] = FinishRow(unit.Natural(state.max[r]), state.sum[r] * kMissing, sink);
    results[r].factor *= kMissing;
    if (row >= to.live_rows) results[r] = {0.0f, NegativeInfinity(), true};
    if (p.lse != nullptr && row < to.stored_rows && threadIdx.x % 4 == 0)
      p.lse[to.LseOffset(p) + row] = results[r].lse;
  }
#pragma unroll
  for (int i = 0; i < kHeadDimV / 2; ++i) o[i] *= results[(i >> 1) & 1].factor;
  if (__any_sync(0xffffffff, results[0].empty || results[1].empty)) {
#pragma unroll
    for (int i = 0; i < kHeadDimV / 2; ++i) {
      if (results[(i >> 1) & 1].empty) o[i] = 0.0f;
    }
  }
}

// Stores finished rows from registers, as far as the sequence has room for them. Each warp owns 16
// rows and needs no other.
template <DataType kDtype, int kHeadDimV>
__device__ __forceinline__ void StoreRows(const AttentionParams& p, const Destination& to,
                                          const float (&o)[kHeadDimV / 2]) {
  const int lane = threadIdx.x % 32;
  const int first_row = ThreadRowInGroup();
  const bool stored[2] = {first_row < to.stored_rows, first_row + 8 < to.stored_rows};
  const std::int64_t offset = to.OutOffset(p) + first_row * p.out.seq_stride;
  const std::int64_t second_row = 8 * p.out.seq_stride;
  if (p.out.dtype == DataType::kFloat32) {
    float* const out = static_cast<float*>(p.out.data) + offset + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kHeadDimV / 2; i += 2) {
      const int r = (i >> 1) & 1;
      if (stored[r])
        *reinterpret_cast<float2*>(out + r * second_row + i / 4 * 8) = make_float2(o[i], o[i + 1]);
    }
    return;
  }
  std::uint16_t* const out = static_cast<std::uint16_t*>(p.out.data) + offset + lane % 4 * 8;
#pragma unroll
  for (int group = 0; group < kHeadDimV / 32; ++group) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      std::uint32_t pairs[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = (group * 4 + j) * 4 + 2 * r;
        pairs[j] = Element<kDtype>::Pack(o[i], o[i + 1]);
      }
      TransposeInQuad(pairs);
      if (stored[r]) {
        *reinterpret_cast<uint4*>(out + r * second_row + group * 32) =
            make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
      }
    }
  }
}

}  // namespace attnd::cuda::sm90
