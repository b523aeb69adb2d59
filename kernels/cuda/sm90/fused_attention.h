// Launches the fused online-softmax kernel for 16-bit inputs on devices of compute capability 9.0.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention_params.h"
#include "kernels/cuda/sm90/score_kind.h"
#include "kernels/cuda/sm90/tile_classes.h"
#include "kernels/cuda/sm90/tile_traits.h"

namespace attnd::cuda::sm90 {

// Device memory of a launch's own, whatever it holds. Each may be absent, which costs time alone.
struct Workspace {
  int* ticket = nullptr;  // where tiles differ in length, and are more than multiprocessors
  BlockClasses* classes = nullptr;  // DescribeTileClasses(p, kTileShape<...>).size() of them
};

// The tiles that LaunchFusedAttention cuts a problem into.
template <int kHeadDim, int kHeadDimV, ScoreKind kScoreKind>
inline constexpr TileShape kTileShape =
    ChooseTraits<DataType::kBFloat16, kHeadDim, kHeadDimV, kScoreKind>::Type::kShape;

// Enqueues out = softmax(scores) v on `stream`, in one pass over k and v, for q, k and v of kDtype
// (float16 or bfloat16) of exactly kHeadDim and kHeadDimV columns. kScoreKind is ScoreKindOf(p),
// or kFinishedMasked. Rows of all tensors start at multiples of 16 bytes, strides are not negative,
// lengths at most kMaxSeqlen. probs is not written. All memory must live until the stream passes
// this point.
template <DataType kDtype, int kHeadDim, int kHeadDimV, ScoreKind kScoreKind>
cudaError_t LaunchFusedAttention(const AttentionParams& p, int num_multiprocessors,
                                 const Workspace& workspace, cudaStream_t stream);

}  // namespace attnd::cuda::sm90
