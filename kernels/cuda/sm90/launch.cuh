// Host side of one specialisation of the Hopper kernel.
#pragma once

#include <algorithm>

#include "kernels/cuda/sm90/fused_attention.cuh"
#include "kernels/cuda/sm90/fused_attention.h"
#include "kernels/cuda/sm90/tensor_map.h"

namespace attnd::cuda::sm90 {

// How many neighbouring heads work on the same row blocks at one time. Without a causal mask, those
// that share their keys, as pairs of blocks need it; with it, as many as the second-level cache
// holds keys and values for, so that long tiles of many heads can go first.
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

// The bytes of a boolean mask as a bias of one byte an element.
inline BiasView AsBytes(const MaskView& mask) {
  return {mask.data, mask.dtype,        mask.batch,       mask.heads,     mask.rows,
          mask.cols, mask.batch_stride, mask.head_stride, mask.row_stride};
}

// Describes bias and mask to the copy engine, if it can read them.
template <typename Traits>
cudaError_t DescribeScoreArrays(const AttentionParams& p, KernelArgs* args) {
  const std::int64_t bias_bytes = SizeOf(p.bias.dtype);
  const BiasView mask = AsBytes(p.mask);
  args->copy_bias = Traits::kFinishes && ScoreArrayCopyable(p.bias, bias_bytes, p.seqlen_q);
  args->copy_mask = Traits::kMasks && ScoreArrayCopyable(mask, 1, p.seqlen_q);
  cudaError_t error = cudaSuccess;
  if (args->copy_bias)
    error = EncodeScoreMap(p.bias, bias_bytes, 64, Traits::kBiasPitch, &args->bias_map);
  if (error == cudaSuccess && args->copy_mask)
    error = EncodeScoreMap(mask, 1, 64, Traits::kMaskPitch, &args->mask_map);
  return error;
}

// Of a problem without a mask.
inline bool HasOnlyCopyableBias(const AttentionParams& p) {
  return ScoreArrayCopyable(p.bias, SizeOf(p.bias.dtype), p.seqlen_q) && !(p.softcap > 0.0f) &&
         p.alibi_slopes == nullptr;
}

// Whether pairs of blocks pay, and can work: tiles are dealt in turn (tile_scheduler.cuh), so that
// both blocks of a pair walk as many, neighbours see the same keys, and all of them.
template <typename Traits>
bool PairsPay(const AttentionParams& p, int num_multiprocessors) {
  const std::int64_t m_blocks = (p.seqlen_q + Traits::kBlockM - 1) / Traits::kBlockM;
  const std::int64_t tiles_of_keys = m_blocks * (p.num_heads / p.num_kv_heads);
  const bool one_length = p.cu_seqlens_q == nullptr && p.cu_seqlens_k == nullptr &&
                          p.lengths_q == nullptr && p.lengths_k == nullptr &&
                          p.v.seqlen == p.seqlen_k;
  const bool all_keys = !p.causal && p.window_left < 0 && p.window_right < 0;
  return one_length && all_keys && p.seqlen_k >= Traits::kKeysForPairs && tiles_of_keys % 2 == 0 &&
         num_multiprocessors >= 2;
}

// As many blocks of `blocks` as make whole clusters.
template <typename Traits>
cudaError_t Start(const KernelArgs& args, int blocks, cudaStream_t stream) {
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {Traits::kClusterSize, 1, 1};
  cudaLaunchConfig_t config = {};
  config.gridDim = blocks / Traits::kClusterSize * Traits::kClusterSize;
  config.blockDim = Traits::kThreads;
  config.dynamicSmemBytes = Traits::kSharedBytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = Traits::kClusterSize > 1 ? 1 : 0;
  return cudaLaunchKernelEx(&config, FusedAttentionKernel<Traits>, args);
}

// Describes q, k, v and out to the copy engine.
template <typename Traits>
cudaError_t DescribeTensors(const AttentionParams& p, KernelArgs* args) {
  constexpr int kKeysACopy = Traits::kBlockN / Traits::kClusterSize;
  args->copy_out = Traits::kStagedOutput && p.out.dtype != DataType::kFloat32;
  cudaError_t error = EncodeTensorMap(p.q, Traits::kBlockM, Traits::kQkSwizzleBytes, &args->q_map);
  if (error == cudaSuccess)
    error = EncodeTensorMap(p.k, kKeysACopy, Traits::kQkSwizzleBytes, &args->k_map);
  if (error == cudaSuccess)
    error = EncodeTensorMap(p.v, kKeysACopy, Traits::kVSwizzleBytes, &args->v_map);
  if (error == cudaSuccess && args->copy_out)
    error = EncodeTensorMap(AsConst(p.out), kWarpRows, Traits::kVSwizzleBytes, &args->out_map);
  return error;
}

// Enqueues what has to be in the workspace before the kernel runs: the classes of a mask's tiles,
// and the ticket by which tiles of uneven work are drawn.
template <typename Traits>
cudaError_t FillWorkspace(const AttentionParams& p, const Workspace& workspace, int blocks,
                          cudaStream_t stream, KernelArgs* args) {
  if (Traits::kMasks && workspace.classes != nullptr) {
    args->classes = DescribeTileClasses(p, Traits::kShape);
    args->classes.memory = args->classes.size() > 0 ? workspace.classes : nullptr;
    const cudaError_t error = ClassifyTiles(p, Traits::kShape, args->classes, stream);
    if (error != cudaSuccess) return error;
  }
  const bool uneven = p.causal || p.cu_seqlens_q != nullptr || p.lengths_k != nullptr ||
                      args->classes.memory != nullptr;
  if (!uneven || args->num_tiles <= blocks || workspace.ticket == nullptr) return cudaSuccess;
  args->ticket = workspace.ticket;
  return cudaMemsetAsync(workspace.ticket, 0, sizeof(int), stream);
}

// What PairsPay relies on, in other functions' hands.
inline bool DealtInPairs(const KernelArgs& args) {
  return args.ticket == nullptr && !args.clear_v_tail &&
         args.heads_per_section == args.p.num_heads / args.p.num_kv_heads;
}

template <typename Traits>
cudaError_t Launch(const AttentionParams& p, const Workspace& workspace, int num_multiprocessors,
                   cudaStream_t stream) {
  const std::int64_t m_blocks = (p.seqlen_q + Traits::kBlockM - 1) / Traits::kBlockM;
  const std::int64_t num_tiles = m_blocks * p.num_heads * p.batch_size;
  if (num_tiles == 0) return cudaSuccess;
  const int blocks = static_cast<int>(std::min<std::int64_t>(num_tiles, num_multiprocessors));
  KernelArgs args;
  args.p = p;
  args.m_blocks = static_cast<int>(m_blocks);
  args.num_tiles = static_cast<int>(num_tiles);
  if (Traits::kScoreKind == ScoreKind::kCapped) args.cap = MakeCapConstants<Traits::kCapTerms>(p);
  args.heads_per_section = HeadsPerSection(p);
  args.clear_v_tail =
      p.cu_seqlens_k != nullptr || p.lengths_k != nullptr || p.v.seqlen != p.seqlen_k;

  cudaError_t error = DescribeTensors<Traits>(p, &args);
  if (error == cudaSuccess) error = DescribeScoreArrays<Traits>(p, &args);
  if (error == cudaSuccess) {
    error = cudaFuncSetAttribute(FusedAttentionKernel<Traits>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, Traits::kSharedBytes);
  }
  if (error == cudaSuccess) error = FillWorkspace<Traits>(p, workspace, blocks, stream, &args);
  if (error != cudaSuccess) return error;
  if (Traits::kClusterSize > 1 && !DealtInPairs(args)) return cudaErrorInvalidConfiguration;
  return Start<Traits>(args, blocks, stream);
}

template <DataType kDtype, int kHeadDim, int kHeadDimV, ScoreKind kScoreKind>
cudaError_t LaunchFusedAttention(const AttentionParams& p, int num_multiprocessors,
                                 const Workspace& workspace, cudaStream_t stream) {
  using Traits = typename ChooseTraits<kDtype, kHeadDim, kHeadDimV, kScoreKind>::Type;
  if constexpr (kScoreKind == ScoreKind::kRaw && Traits::kKeysForPairs > 0) {
    if (PairsPay<Traits>(p, num_multiprocessors))
      return Launch<Paired<Traits>>(p, workspace, num_multiprocessors, stream);
  }
  if constexpr (kScoreKind == ScoreKind::kFinished) {
    if (HasOnlyCopyableBias(p))
      return Launch<BiasAlone<Traits>>(p, workspace, num_multiprocessors, stream);
  }
  return Launch<Traits>(p, workspace, num_multiprocessors, stream);
}

}  // namespace attnd::cuda::sm90
