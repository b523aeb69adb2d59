// Launches the fused online-softmax kernel for 16-bit inputs on devices of compute capability 9.0.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention_params.h"
#include "kernels/cuda/sm90/score_kind.h"

namespace attnd::cuda::sm90 {

// Device memory that a launch of more tiles than multiprocessors wants for work of its own.
inline constexpr std::int64_t kTicketBytes = sizeof(int);

// Enqueues out = softmax(scores) v on `stream`, in one pass over k and v, for q, k and v of kDtype
// (float16 or bfloat16) of exactly kHeadDim and kHeadDimV columns. kScoreKind is ScoreKindOf(p),
// or kFinished. Rows of all tensors start at multiples of 16 bytes, strides are not negative,
// lengths at most kMaxSeqlen. probs is not written. `ticket`: kTicketBytes of device memory,
// whatever they hold, or nullptr, which costs time where tiles differ in length. All memory must
// live until the stream passes this point.
template <DataType kDtype, int kHeadDim, int kHeadDimV, ScoreKind kScoreKind>
cudaError_t LaunchFusedAttention(const AttentionParams& p, int num_multiprocessors, int* ticket,
                                 cudaStream_t stream);

}  // namespace attnd::cuda::sm90
