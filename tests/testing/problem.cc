#include "tests/testing/problem.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/sequence_bounds.h"

namespace attnd::testing {
namespace {

constexpr std::int64_t kRowsAfterPacked = 3;  // of poison, after the last packed sequence

std::int64_t Total(const std::vector<std::int32_t>& rooms) {
  return std::accumulate(rooms.begin(), rooms.end(), std::int64_t{0});
}

// Elements from the first to the last of a tensor.
template <typename View>
std::int64_t SpanOf(const View& view) {
  if (view.batch == 0 || view.seqlen == 0) return 0;
  return (view.batch - 1) * view.batch_stride + (view.seqlen - 1) * view.seq_stride +
         (view.heads - 1) * view.head_stride + view.dim;
}

template <typename View>
std::int64_t ScoreSpanOf(const View& view, std::int64_t slack) {
  return view.batch * view.heads * view.rows * (view.cols + slack);
}

template <typename View>
void SetShape(View& view, const ProblemSpec& spec, DataType dtype, std::int64_t seqlen,
              std::int64_t heads, std::int64_t dim) {
  const bool packed = spec.layout == Layout::kPacked;
  view.dtype = dtype;
  view.batch = packed ? 1 : spec.batch_size;
  view.seqlen = seqlen;
  view.heads = heads;
  view.dim = dim;
  const std::int64_t row = dim + spec.slack;
  if (spec.layout == Layout::kBhsd) {
    view.seq_stride = row;
    view.head_stride = seqlen * row + spec.slack;
    view.batch_stride = heads * view.head_stride + spec.slack;
  } else {
    view.head_stride = row;
    view.seq_stride = heads * row + spec.slack;
    view.batch_stride = packed ? 0 : seqlen * view.seq_stride + spec.slack;
  }
}

template <typename View>
void SetScoreShape(View& view, const ProblemSpec& spec, ScoreArray kind) {
  if (kind == ScoreArray::kNone) return;
  const bool full = kind == ScoreArray::kFull;
  view.batch = full || kind == ScoreArray::kPerBatch ? spec.batch_size : 1;
  view.heads = full || kind == ScoreArray::kPerHead ? spec.num_heads : 1;
  view.rows = full || kind == ScoreArray::kPerRow ? spec.seqlen_q : 1;
  view.cols = spec.seqlen_k;
  const std::int64_t row = view.cols + spec.score_slack;
  view.row_stride = view.rows == 1 ? 0 : row;
  view.head_stride = view.heads == 1 ? 0 : view.rows * row;
  view.batch_stride = view.batch == 1 ? 0 : view.heads * view.rows * row;
}

}  // namespace

Problem::Problem(ProblemSpec spec) : spec_(std::move(spec)) {
  if (spec_.head_dim_v == 0) spec_.head_dim_v = spec_.head_dim;
  if (spec_.layout == Layout::kPacked) {
    if (spec_.rooms_q.empty()) spec_.rooms_q.assign(spec_.batch_size, spec_.seqlen_q);
    if (spec_.rooms_k.empty()) spec_.rooms_k.assign(spec_.batch_size, spec_.seqlen_k);
  }
  DescribeTensors();
  DescribeScoreArrays();
  Reserve();
  inputs_.Allocate();
  outputs_.Allocate();
  host_params_ = ParamsAt(inputs_.data(), outputs_.data());
  WriteSmallArrays();
  FillTensors();
  FillScoreArrays();
}

void Problem::DescribeTensors() {
  const bool packed = spec_.layout == Layout::kPacked;
  const std::int64_t rows_q = packed ? Total(spec_.rooms_q) + kRowsAfterPacked : spec_.seqlen_q;
  const std::int64_t rows_k = packed ? Total(spec_.rooms_k) + kRowsAfterPacked : spec_.seqlen_k;
  shape_.batch_size = spec_.batch_size;
  shape_.seqlen_q = spec_.seqlen_q;
  shape_.seqlen_k = spec_.seqlen_k;
  shape_.num_heads = spec_.num_heads;
  shape_.num_kv_heads = spec_.num_kv_heads;
  shape_.head_dim = spec_.head_dim;
  shape_.head_dim_v = spec_.head_dim_v;
  SetShape(shape_.q, spec_, spec_.dtype, rows_q, spec_.num_heads, spec_.head_dim);
  SetShape(shape_.k, spec_, spec_.dtype, rows_k, spec_.num_kv_heads, spec_.head_dim);
  SetShape(shape_.v, spec_, spec_.dtype, rows_k, spec_.num_kv_heads, spec_.head_dim_v);
  SetShape(shape_.out, spec_, spec_.out_dtype.value_or(spec_.dtype), rows_q, spec_.num_heads,
           spec_.head_dim_v);
  if (spec_.lse) {
    shape_.lse_head_stride = rows_q + spec_.slack;
    shape_.lse_batch_stride = packed ? 0 : spec_.num_heads * shape_.lse_head_stride + spec_.slack;
  }
  shape_.softmax_scale =
      spec_.softmax_scale.value_or(1.0f / std::sqrt(static_cast<float>(spec_.head_dim)));
  shape_.softcap = spec_.softcap;
  shape_.causal = spec_.causal;
  shape_.window_left = spec_.window_left;
  shape_.window_right = spec_.window_right;
  shape_.alibi_batch_stride = spec_.alibi == Slopes::kPerBatchAndHead ? spec_.num_heads : 0;
}

void Problem::DescribeScoreArrays() {
  SetScoreShape(shape_.mask, spec_, spec_.mask);
  SetScoreShape(shape_.bias, spec_, spec_.bias);
  shape_.bias.dtype = spec_.bias_dtype.value_or(spec_.dtype);
}

void Problem::Reserve() {
  const auto input = [this](bool wanted, std::int64_t bytes) {
    return wanted ? inputs_.Reserve(bytes) : -1;
  };
  const std::int64_t element = SizeOf(spec_.dtype);
  const bool packed = spec_.layout == Layout::kPacked;
  const std::int64_t entry = sizeof(std::int32_t);
  offsets_.q = input(true, SpanOf(shape_.q) * element);
  offsets_.k = input(true, SpanOf(shape_.k) * element);
  offsets_.v = input(true, SpanOf(shape_.v) * element);
  offsets_.mask =
      input(spec_.mask != ScoreArray::kNone, ScoreSpanOf(shape_.mask, spec_.score_slack));
  offsets_.bias = input(spec_.bias != ScoreArray::kNone,
                        ScoreSpanOf(shape_.bias, spec_.score_slack) * SizeOf(shape_.bias.dtype));
  offsets_.cu_seqlens_q = input(packed, (spec_.batch_size + 1) * entry);
  offsets_.cu_seqlens_k = input(packed, (spec_.batch_size + 1) * entry);
  offsets_.lengths_q = input(!spec_.lengths_q.empty(), spec_.batch_size * entry);
  offsets_.lengths_k = input(!spec_.lengths_k.empty(), spec_.batch_size * entry);
  offsets_.alibi_slopes =
      input(spec_.alibi != Slopes::kNone, spec_.batch_size * spec_.num_heads * sizeof(float));
  offsets_.sinks = input(spec_.sinks, spec_.num_heads * sizeof(float));

  const std::int64_t lse_elements = (shape_.q.batch - 1) * shape_.lse_batch_stride +
                                    (spec_.num_heads - 1) * shape_.lse_head_stride +
                                    shape_.q.seqlen;
  const std::int64_t score_elements =
      spec_.batch_size * spec_.num_heads * spec_.seqlen_q * spec_.seqlen_k;
  offsets_.out = outputs_.Reserve(SpanOf(shape_.out) * SizeOf(shape_.out.dtype));
  if (spec_.lse) {
    offsets_.lse = outputs_.Reserve(std::max<std::int64_t>(lse_elements, 0) * sizeof(float));
  }
  if (spec_.probs) offsets_.probs = outputs_.Reserve(score_elements * sizeof(float));
}

AttentionParams Problem::ParamsAt(const std::byte* inputs, std::byte* outputs) const {
  const auto in = [inputs](std::int64_t offset) { return offset < 0 ? nullptr : inputs + offset; };
  const auto out = [outputs](std::int64_t offset) {
    return offset < 0 ? nullptr : outputs + offset;
  };
  AttentionParams p = shape_;
  p.q.data = in(offsets_.q);
  p.k.data = in(offsets_.k);
  p.v.data = in(offsets_.v);
  p.mask.data = reinterpret_cast<const std::uint8_t*>(in(offsets_.mask));
  p.bias.data = in(offsets_.bias);
  p.cu_seqlens_q = reinterpret_cast<const std::int32_t*>(in(offsets_.cu_seqlens_q));
  p.cu_seqlens_k = reinterpret_cast<const std::int32_t*>(in(offsets_.cu_seqlens_k));
  p.lengths_q = reinterpret_cast<const std::int32_t*>(in(offsets_.lengths_q));
  p.lengths_k = reinterpret_cast<const std::int32_t*>(in(offsets_.lengths_k));
  p.alibi_slopes = reinterpret_cast<const float*>(in(offsets_.alibi_slopes));
  p.sinks = reinterpret_cast<const float*>(in(offsets_.sinks));
  p.out.data = out(offsets_.out);
  p.lse = reinterpret_cast<float*>(out(offsets_.lse));
  p.probs = reinterpret_cast<float*>(out(offsets_.probs));
  return p;
}

float Problem::Out(std::int64_t b, std::int64_t row, std::int64_t head, std::int64_t d) {
  const SequenceBounds s = BoundsOf(params(), b);
  return LoadElement(outputs_.data() + offsets_.out, shape_.out.dtype,
                     RowOffset(shape_.out, s.q_batch, s.q_begin, row, head) + d);
}

float Problem::Lse(std::int64_t b, std::int64_t head, std::int64_t row) {
  const AttentionParams& p = params();
  return p.lse[LseOffset(p, BoundsOf(p, b), head, row)];
}

float Problem::Probs(std::int64_t b, std::int64_t head, std::int64_t row, std::int64_t j) {
  const AttentionParams& p = shape_;
  return params().probs[((b * p.num_heads + head) * p.seqlen_q + row) * p.seqlen_k + j];
}

std::int64_t Problem::CountStrayWrites() {
  const AttentionParams& p = params();
  std::vector<bool> result(outputs_.size_bytes(), false);
  const auto mark = [&result](std::int64_t offset, std::int64_t bytes) {
    std::fill_n(result.begin() + offset, bytes, true);
  };
  const std::int64_t element = SizeOf(p.out.dtype);
  for (std::int64_t b = 0; b < p.batch_size; ++b) {
    const SequenceBounds s = BoundsOf(p, b);
    for (std::int64_t i = 0; i < s.room_q * p.num_heads; ++i) {
      const std::int64_t row = i / p.num_heads;
      const std::int64_t head = i % p.num_heads;
      mark(offsets_.out + RowOffset(p.out, s.q_batch, s.q_begin, row, head) * element,
           p.head_dim_v * element);
      if (p.lse != nullptr) {
        mark(offsets_.lse + LseOffset(p, s, head, row) * sizeof(float), sizeof(float));
      }
    }
  }
  if (p.probs != nullptr) {
    mark(offsets_.probs, p.batch_size * p.num_heads * p.seqlen_q * p.seqlen_k * sizeof(float));
  }
  std::int64_t stray = 0;
  for (std::int64_t i = 0; i < outputs_.size_bytes(); ++i) {
    stray += !result[i] && outputs_.data()[i] != Arena::kPoison;
  }
  return stray;
}

}  // namespace attnd::testing
