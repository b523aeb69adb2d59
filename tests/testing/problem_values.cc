// What stands in the inputs of a Problem.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "kernels/sequence_bounds.h"
#include "tests/testing/problem.h"

namespace attnd::testing {
namespace {

template <typename T>
void CopyTo(std::byte* base, std::int64_t offset, const std::vector<T>& values) {
  if (offset >= 0) std::copy(values.begin(), values.end(), reinterpret_cast<T*>(base + offset));
}

std::vector<std::int32_t> PrefixSums(const std::vector<std::int32_t>& rooms) {
  std::vector<std::int32_t> sums = {0};
  std::partial_sum(rooms.begin(), rooms.end(), std::back_inserter(sums));
  return sums;
}

// The first index of a broadcast dimension, else the index itself.
std::int64_t Broadcast(std::int64_t size, std::int64_t index) { return size == 1 ? 0 : index; }

// What the mask says of a whole square; nothing where it forbids some of its elements.
std::optional<bool> SquareAllows(const ProblemSpec& spec, std::int64_t b, std::int64_t head,
                                 std::int64_t row, std::int64_t j) {
  if (spec.mask_square == 0) return std::nullopt;
  switch ((5 * (row / spec.mask_square) + 3 * (j / spec.mask_square) + head + b) % 4) {
    case 0:
      return std::nullopt;
    case 1:
      return true;
    default:
      return false;
  }
}

}  // namespace

void Problem::WriteSmallArrays() {
  std::byte* base = inputs_.data();
  CopyTo(base, offsets_.cu_seqlens_q, PrefixSums(spec_.rooms_q));
  CopyTo(base, offsets_.cu_seqlens_k, PrefixSums(spec_.rooms_k));
  CopyTo(base, offsets_.lengths_q, spec_.lengths_q);
  CopyTo(base, offsets_.lengths_k, spec_.lengths_k);
  std::vector<float> slopes(spec_.alibi == Slopes::kPerBatchAndHead
                                ? spec_.batch_size * spec_.num_heads
                                : spec_.num_heads);
  for (std::size_t i = 0; i < slopes.size(); ++i) slopes[i] = std::exp2(-1.0f - 0.5f * i);
  CopyTo(base, offsets_.alibi_slopes, slopes);
  std::vector<float> sinks(spec_.num_heads);
  for (std::size_t i = 0; i < sinks.size(); ++i) sinks[i] = 1.5f - 0.7f * i;
  CopyTo(base, offsets_.sinks, sinks);
}

void Problem::FillTensors() {
  RandomValues random(spec_.seed, spec_.distribution);
  const AttentionParams& p = params();
  for (std::int64_t b = 0; b < p.batch_size; ++b) {
    const SequenceBounds s = BoundsOf(p, b);
    for (std::int64_t i = 0; i < s.seqlen_q * p.num_heads * p.head_dim; ++i) {
      const std::int64_t row = i / p.head_dim;
      SetQ(b, row / p.num_heads, row % p.num_heads, i % p.head_dim,
           spec_.amplitude * random.Next());
    }
    for (std::int64_t i = 0; i < s.seqlen_k * p.num_kv_heads * p.head_dim; ++i) {
      const std::int64_t row = i / p.head_dim;
      SetK(b, row / p.num_kv_heads, row % p.num_kv_heads, i % p.head_dim,
           spec_.amplitude * random.Next());
    }
    for (std::int64_t i = 0; i < s.seqlen_k * p.num_kv_heads * p.head_dim_v; ++i) {
      const std::int64_t row = i / p.head_dim_v;
      SetV(b, row / p.num_kv_heads, row % p.num_kv_heads, i % p.head_dim_v, random.Next());
    }
  }
}

// Broadcast entries serve the longest sequence they are used for, so that only what lies past every
// length stays poisoned.
void Problem::FillScoreArrays() {
  const AttentionParams& p = params();
  RandomValues random(spec_.seed + 1, Distribution::kUniform);
  for (std::int64_t b = 0; b < p.batch_size; ++b) {
    const SequenceBounds s = BoundsOf(p, b);
    for (std::int64_t i = 0; i < p.num_heads * s.seqlen_q; ++i) {
      FillScoreRow(b, i / s.seqlen_q, i % s.seqlen_q, s.seqlen_k, random);
    }
  }
}

void Problem::FillScoreRow(std::int64_t b, std::int64_t head, std::int64_t row,
                           std::int64_t seqlen_k, RandomValues& random) {
  const bool empty_row = spec_.mask_empty_rows && Broadcast(shape_.mask.rows, row) % 5 == 2;
  for (std::int64_t j = 0; j < seqlen_k; ++j) {
    if (spec_.mask != ScoreArray::kNone) {
      const bool allowed = random.Next() < 0.4f;
      const std::optional<bool> square =
          SquareAllows(spec_, Broadcast(shape_.mask.batch, b), Broadcast(shape_.mask.heads, head),
                       Broadcast(shape_.mask.rows, row), j);
      SetMask(b, head, row, j, !empty_row && square.value_or(allowed));
    }
    if (spec_.bias != ScoreArray::kNone) {
      const bool forbid = spec_.bias_minus_infinity && random.Next() < -0.7f;
      SetBias(b, head, row, j,
              forbid ? -std::numeric_limits<float>::infinity() : 2.0f * random.Next());
    }
  }
}

void Problem::SetQ(std::int64_t b, std::int64_t row, std::int64_t head, std::int64_t d,
                   float value) {
  const SequenceBounds s = BoundsOf(params(), b);
  StoreElement(inputs_.data() + offsets_.q, spec_.dtype,
               RowOffset(shape_.q, s.q_batch, s.q_begin, row, head) + d, value);
}

void Problem::SetK(std::int64_t b, std::int64_t row, std::int64_t head, std::int64_t d,
                   float value) {
  const SequenceBounds s = BoundsOf(params(), b);
  StoreElement(inputs_.data() + offsets_.k, spec_.dtype,
               RowOffset(shape_.k, s.k_batch, s.k_begin, row, head) + d, value);
}

void Problem::SetV(std::int64_t b, std::int64_t row, std::int64_t head, std::int64_t d,
                   float value) {
  const SequenceBounds s = BoundsOf(params(), b);
  StoreElement(inputs_.data() + offsets_.v, spec_.dtype,
               RowOffset(shape_.v, s.k_batch, s.k_begin, row, head) + d, value);
}

void Problem::SetBias(std::int64_t b, std::int64_t head, std::int64_t row, std::int64_t j,
                      float value) {
  StoreElement(inputs_.data() + offsets_.bias, shape_.bias.dtype,
               ScoreOffset(shape_.bias, b, head, row) + j, value);
}

void Problem::SetMask(std::int64_t b, std::int64_t head, std::int64_t row, std::int64_t j,
                      bool value) {
  inputs_.data()[offsets_.mask + ScoreOffset(shape_.mask, b, head, row) + j] =
      value ? std::byte{1} : std::byte{0};
}

void Problem::SetAlibiSlope(std::int64_t head, float value) {
  reinterpret_cast<float*>(inputs_.data() + offsets_.alibi_slopes)[head] = value;
}

void Problem::SetSink(std::int64_t head, float value) {
  reinterpret_cast<float*>(inputs_.data() + offsets_.sinks)[head] = value;
}

void Problem::CopyTensors(std::int64_t b, Problem& alone) {
  const AttentionParams& from = params();
  const SequenceBounds s = BoundsOf(from, b);
  for (std::int64_t i = 0; i < s.seqlen_q * from.num_heads; ++i) {
    const std::int64_t row = i / from.num_heads;
    const std::int64_t head = i % from.num_heads;
    const std::int64_t q = RowOffset(from.q, s.q_batch, s.q_begin, row, head);
    for (std::int64_t d = 0; d < from.head_dim; ++d) {
      alone.SetQ(0, row, head, d, LoadElement(from.q.data, from.q.dtype, q + d));
    }
  }
  for (std::int64_t i = 0; i < s.seqlen_k * from.num_kv_heads; ++i) {
    const std::int64_t row = i / from.num_kv_heads;
    const std::int64_t head = i % from.num_kv_heads;
    const std::int64_t k = RowOffset(from.k, s.k_batch, s.k_begin, row, head);
    const std::int64_t v = RowOffset(from.v, s.k_batch, s.k_begin, row, head);
    for (std::int64_t d = 0; d < from.head_dim; ++d) {
      alone.SetK(0, row, head, d, LoadElement(from.k.data, from.k.dtype, k + d));
    }
    for (std::int64_t d = 0; d < from.head_dim_v; ++d) {
      alone.SetV(0, row, head, d, LoadElement(from.v.data, from.v.dtype, v + d));
    }
  }
}

void Problem::CopyScoreArrays(std::int64_t b, Problem& alone) {
  const AttentionParams& from = params();
  const SequenceBounds s = BoundsOf(from, b);
  for (std::int64_t i = 0; i < from.num_heads * s.seqlen_q; ++i) {
    const std::int64_t head = i / s.seqlen_q;
    const std::int64_t row = i % s.seqlen_q;
    const std::int64_t mask = ScoreOffset(from.mask, b, head, row);
    const std::int64_t bias = ScoreOffset(from.bias, b, head, row);
    for (std::int64_t j = 0; j < s.seqlen_k; ++j) {
      if (from.mask.data != nullptr) {
        alone.SetMask(0, head, row, j, from.mask.data[mask + j] != 0);
      }
      if (from.bias.data != nullptr) {
        alone.SetBias(0, head, row, j, LoadElement(from.bias.data, from.bias.dtype, bias + j));
      }
    }
  }
}

Problem Problem::Extract(std::int64_t b) {
  const AttentionParams& from = params();
  const SequenceBounds s = BoundsOf(from, b);
  ProblemSpec alone = spec_;
  alone.batch_size = 1;
  alone.seqlen_q = s.seqlen_q;
  alone.seqlen_k = s.seqlen_k;
  alone.layout = Layout::kBshd;
  alone.slack = 0;
  alone.score_slack = 0;
  alone.rooms_q.clear();
  alone.rooms_k.clear();
  alone.lengths_q.clear();
  alone.lengths_k.clear();
  alone.distribution = Distribution::kConstant;  // to be overwritten
  Problem result(alone);
  CopyTensors(b, result);
  CopyScoreArrays(b, result);
  if (spec_.alibi == Slopes::kPerBatchAndHead) {
    auto* slopes = reinterpret_cast<float*>(result.inputs_.data() + result.offsets_.alibi_slopes);
    std::copy_n(from.alibi_slopes + b * from.alibi_batch_stride, from.num_heads, slopes);
  }
  return result;
}

}  // namespace attnd::testing
