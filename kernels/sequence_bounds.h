// Where the rows of each sequence of a batch lie, and which key/value head a query head reads: the
// rules that kernels on every device follow. Free of host-only headers, so that CUDA sources
// compile fast.
#pragma once

#include <cstdint>

#include "kernels/attention_params.h"
#include "kernels/host_device.h"

namespace attnd {

// One sequence of a batch: where its rows begin and how many are in use.
struct SequenceBounds {
  std::int64_t q_batch = 0;  // index to multiply by the batch strides of q and out (0 when packed)
  std::int64_t k_batch = 0;
  std::int64_t q_begin = 0;  // first row along the seqlen dimension of q, out and lse
  std::int64_t k_begin = 0;
  std::int64_t room_q = 0;  // rows it has in q and out; rows [seqlen_q, room_q) are padding
  std::int64_t seqlen_q = 0;
  std::int64_t seqlen_k = 0;
};

ATTND_HOST_DEVICE SequenceBounds BoundsOf(const AttentionParams& p, std::int64_t b) {
  SequenceBounds s;
  s.q_batch = p.cu_seqlens_q ? 0 : b;
  s.k_batch = p.cu_seqlens_k ? 0 : b;
  s.q_begin = p.cu_seqlens_q ? p.cu_seqlens_q[b] : 0;
  s.k_begin = p.cu_seqlens_k ? p.cu_seqlens_k[b] : 0;
  s.room_q = p.cu_seqlens_q ? p.cu_seqlens_q[b + 1] - s.q_begin : p.seqlen_q;
  const std::int64_t room_k = p.cu_seqlens_k ? p.cu_seqlens_k[b + 1] - s.k_begin : p.seqlen_k;
  s.seqlen_q = p.lengths_q ? p.lengths_q[b] : s.room_q;
  s.seqlen_k = p.lengths_k ? p.lengths_k[b] : room_k;
  return s;
}

// The key/value head that query head `head` reads.
ATTND_HOST_DEVICE std::int64_t KvHeadOf(const AttentionParams& p, std::int64_t head) {
  return head / (p.num_heads / p.num_kv_heads);
}

// Element offset of (row, head, 0) of sequence `s` in q or out.
template <typename View>
ATTND_HOST_DEVICE std::int64_t RowOffset(const View& view, std::int64_t batch, std::int64_t begin,
                                         std::int64_t row, std::int64_t head) {
  return batch * view.batch_stride + (begin + row) * view.seq_stride + head * view.head_stride;
}

// Element offset of (b, head, row, 0) in a mask or bias; its strides are 0 where it is broadcast.
template <typename View>
ATTND_HOST_DEVICE std::int64_t ScoreOffset(const View& view, std::int64_t b, std::int64_t head,
                                           std::int64_t row) {
  return b * view.batch_stride + head * view.head_stride + row * view.row_stride;
}

// Element offset of (b, head, row) in lse.
ATTND_HOST_DEVICE std::int64_t LseOffset(const AttentionParams& p, const SequenceBounds& s,
                                         std::int64_t head, std::int64_t row) {
  return s.q_batch * p.lse_batch_stride + head * p.lse_head_stride + s.q_begin + row;
}

}  // namespace attnd
