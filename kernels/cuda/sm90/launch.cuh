// Host side of one specialisation of the Hopper kernel.
#pragma once

#include <algorithm>

#include "kernels/cuda/sm90/fused_attention.cuh"
#include "kernels/cuda/sm90/fused_attention.h"
#include "kernels/cuda/sm90/tensor_map.h"

namespace attnd::cuda::sm90 {

// How many neighbouring heads work on the same row blocks at one time. Without a causal mask, those
// that share their keys; with it, as many as the second-level cache holds keys and values for, so
// that long tiles of many heads can go first.
inline int HeadsPerSection(const AttentionParams& p) {
  constexpr double kCachedBytes = 32 << 20;
  const std::int64_t group = p.num_heads / p.num_kv_heads;
  if (!p.causal) return static_cast<int>(group);
  const double bytes_per_kv_head =
      2.0 * static_cast<double>(p.head_dim + p.head_dim_v) * static_cast<double>(p.seqlen_k);
  std::int64_t kv_heads = 1;
  while (2 * kv_heads * bytes_per_kv_head <= kCachedBytes &&
         kv_heads * group < p.num_heads * p.batch_size)
    kv_heads *= 2;
  return static_cast<int>(kv_heads * group);
}

inline TensorView AsConst(const MutableTensorView& view) {
  return {view.data, view.dtype,        view.batch,      view.seqlen,     view.heads,
          view.dim,  view.batch_stride, view.seq_stride, view.head_stride};
}

template <typename Traits>
cudaError_t Launch(const AttentionParams& p, int* ticket, int num_multiprocessors,
                   cudaStream_t stream) {
  KernelArgs args;
  args.p = p;
  const std::int64_t m_blocks = (p.seqlen_q + Traits::kBlockM - 1) / Traits::kBlockM;
  const std::int64_t num_tiles = m_blocks * p.num_heads * p.batch_size;
  if (num_tiles == 0) return cudaSuccess;
  args.m_blocks = static_cast<int>(m_blocks);
  args.num_tiles = static_cast<int>(num_tiles);
  args.heads_per_section = HeadsPerSection(p);
  args.clear_v_tail =
      p.cu_seqlens_k != nullptr || p.lengths_k != nullptr || p.v.seqlen != p.seqlen_k;
  const int blocks = static_cast<int>(std::min<std::int64_t>(num_tiles, num_multiprocessors));

  cudaError_t error = EncodeTensorMap(p.q, Traits::kBlockM, Traits::kQkSwizzleBytes, &args.q_map);
  if (error == cudaSuccess)
    error = EncodeTensorMap(p.k, Traits::kBlockN, Traits::kQkSwizzleBytes, &args.k_map);
  if (error == cudaSuccess)
    error = EncodeTensorMap(p.v, Traits::kBlockN, Traits::kVSwizzleBytes, &args.v_map);
  args.copy_out = Traits::kStagedOutput && p.out.dtype != DataType::kFloat32;
  if (error == cudaSuccess && args.copy_out)
    error = EncodeTensorMap(AsConst(p.out), kWarpRows, Traits::kVSwizzleBytes, &args.out_map);
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(FusedAttentionKernel<Traits>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, Traits::kSharedBytes);
  }
  const bool uneven = p.causal || p.cu_seqlens_q != nullptr || p.lengths_k != nullptr;
  if (error == cudaSuccess && uneven && num_tiles > blocks && ticket != nullptr) {
    args.ticket = ticket;
    error = cudaMemsetAsync(ticket, 0, sizeof(int), stream);
  }
  if (error != cudaSuccess) return error;
  FusedAttentionKernel<Traits><<<blocks, Traits::kThreads, Traits::kSharedBytes, stream>>>(args);
  return cudaGetLastError();
}

template <DataType kDtype, int kHeadDim, int kHeadDimV, bool kScoreOptions>
cudaError_t LaunchFusedAttention(const AttentionParams& p, int num_multiprocessors, int* ticket,
                                 cudaStream_t stream) {
  return Launch<typename ChooseTraits<kDtype, kHeadDim, kHeadDimV, kScoreOptions>::Type>(
      p, ticket, num_multiprocessors, stream);
}

}  // namespace attnd::cuda::sm90
