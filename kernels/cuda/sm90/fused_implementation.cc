#include "kernels/cuda/sm90/fused_implementation.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "kernels/attention_shape.h"
#include "kernels/cuda/alignment.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/sm90/fused_attention.h"
#include "kernels/cuda/sm90/limits.h"
#include "kernels/cuda/sm90/score_kind.h"
#include "kernels/status_macros.h"

namespace attnd::cuda::sm90 {
namespace {

using LaunchFunction = cudaError_t (*)(const AttentionParams&, int, const Workspace&, cudaStream_t);

// One pair of widths and its kernels.
struct Specialisation {
  std::int64_t head_dim;
  std::int64_t head_dim_v;
  TileShape shapes[kScoreKinds];          // [ScoreKind]
  LaunchFunction launch[2][kScoreKinds];  // [bfloat16][ScoreKind]
};

template <int kHeadDim, int kHeadDimV>
constexpr Specialisation Specialise() {
  using enum DataType;
  using enum ScoreKind;
  return {kHeadDim,
          kHeadDimV,
          {kTileShape<kHeadDim, kHeadDimV, kRaw>, kTileShape<kHeadDim, kHeadDimV, kCapped>,
           kTileShape<kHeadDim, kHeadDimV, kMasked>, kTileShape<kHeadDim, kHeadDimV, kSloped>,
           kTileShape<kHeadDim, kHeadDimV, kFinished>,
           kTileShape<kHeadDim, kHeadDimV, kFinishedMasked>},
          {{LaunchFusedAttention<kFloat16, kHeadDim, kHeadDimV, kRaw>,
            LaunchFusedAttention<kFloat16, kHeadDim, kHeadDimV, kCapped>,
            LaunchFusedAttention<kFloat16, kHeadDim, kHeadDimV, kMasked>,
            LaunchFusedAttention<kFloat16, kHeadDim, kHeadDimV, kSloped>,
            LaunchFusedAttention<kFloat16, kHeadDim, kHeadDimV, kFinished>,
            LaunchFusedAttention<kFloat16, kHeadDim, kHeadDimV, kFinishedMasked>},
           {LaunchFusedAttention<kBFloat16, kHeadDim, kHeadDimV, kRaw>,
            LaunchFusedAttention<kBFloat16, kHeadDim, kHeadDimV, kCapped>,
            LaunchFusedAttention<kBFloat16, kHeadDim, kHeadDimV, kMasked>,
            LaunchFusedAttention<kBFloat16, kHeadDim, kHeadDimV, kSloped>,
            LaunchFusedAttention<kBFloat16, kHeadDim, kHeadDimV, kFinished>,
            LaunchFusedAttention<kBFloat16, kHeadDim, kHeadDimV, kFinishedMasked>}}};
}

constexpr std::array kSpecialisations = {Specialise<64, 64>(),   Specialise<96, 96>(),
                                         Specialise<128, 128>(), Specialise<192, 128>(),
                                         Specialise<192, 192>(), Specialise<256, 256>()};

const Specialisation* Find(const AttentionParams& p) {
  for (const Specialisation& candidate : kSpecialisations) {
    if (candidate.head_dim == p.head_dim && candidate.head_dim_v == p.head_dim_v) return &candidate;
  }
  return nullptr;
}

// The copy engine steps through each dimension by a stride of its own, below 2^40 bytes.
template <typename View>
bool Copyable(const View& view) {
  constexpr std::int64_t kMostElements = (std::int64_t{1} << 40) / 2;
  const auto steps = [](std::int64_t size, std::int64_t stride) {
    return size <= 1 || (stride > 0 && stride < kMostElements);
  };
  return RowsAligned(view) && steps(view.batch, view.batch_stride) &&
         steps(view.seqlen, view.seq_stride) && steps(view.heads, view.head_stride);
}

absl::Status CheckLayout(const AttentionParams& p) {
  constexpr const char* kWanted =
      ": rows must start at multiples of 16 bytes, with positive strides";
  if (!Copyable(p.q)) return absl::UnimplementedError(absl::StrCat("q", kWanted));
  if (!Copyable(p.k)) return absl::UnimplementedError(absl::StrCat("k", kWanted));
  if (!Copyable(p.v)) return absl::UnimplementedError(absl::StrCat("v", kWanted));
  if (!Copyable(p.out)) return absl::UnimplementedError(absl::StrCat("out", kWanted));
  return absl::OkStatus();
}

// At least the number of tiles of the problem; -1 where it does not fit in 63 bits.
std::int64_t TileBound(const AttentionParams& p) {
  const std::int64_t row_blocks = p.q.seqlen / kSmallestBlockM + 1;
  // Packed sequences share the rows of q, and each may end within a tile.
  const std::int64_t tiles_per_head = p.q.batch == p.batch_size
                                          ? CheckedMultiply(p.batch_size, row_blocks)
                                          : p.batch_size + row_blocks;
  return CheckedMultiply(tiles_per_head, p.num_heads);
}

// Rows, keys and tiles are counted in 32 bits.
absl::Status CheckSizes(const AttentionParams& p) {
  if (p.q.seqlen > kMaxSeqlen || p.k.seqlen > kMaxSeqlen)
    return absl::UnimplementedError(absl::StrCat("seqlen: more than ", kMaxSeqlen));
  const std::int64_t tiles = TileBound(p);
  if (tiles < 0 || tiles > kMaxTiles)
    return absl::UnimplementedError(absl::StrCat("batch_size, num_heads, seqlen_q: more than ",
                                                 kMaxTiles, " tiles of ", kSmallestBlockM,
                                                 " rows"));
  return absl::OkStatus();
}

absl::Status Supports(const AttentionParams& p, const DeviceTraits& device) {
  if (device.compute_capability != 90)
    return absl::UnimplementedError(
        absl::StrCat("device: compute capability ", device.compute_capability, "; 90 is needed"));
  if (p.q.dtype == DataType::kFloat32)
    return absl::UnimplementedError("q: dtype float32; float16 or bfloat16 is needed");
  if (Find(p) == nullptr)
    return absl::UnimplementedError(absl::StrCat("head_dim ", p.head_dim, ", head_dim_v ",
                                                 p.head_dim_v, ": no kernel of these widths"));
  if (p.probs != nullptr) return absl::UnimplementedError("probs: the fused kernel never has them");
  RETURN_IF_ERROR(CheckSizes(p));
  return CheckLayout(p);
}

// The ticket comes first, then the classes of a mask's tiles.
constexpr std::int64_t kTicketBytes = 16;

std::int64_t WorkspaceBytes(const AttentionParams& p, const DeviceTraits& device) {
  const TileShape shape = Find(p)->shapes[static_cast<int>(ScoreKindOf(p))];
  const std::int64_t class_bytes = DescribeTileClasses(p, shape).size();
  return class_bytes > 0 || TileBound(p) > device.num_multiprocessors ? kTicketBytes + class_bytes
                                                                      : 0;
}

Workspace DivideWorkspace(const AttentionParams& p, const ExecutionContext& context) {
  auto* const memory = static_cast<std::byte*>(context.workspace);
  const std::int64_t needed = WorkspaceBytes(p, context.device);
  if (needed == 0 || context.workspace_bytes < needed) return {};
  return {reinterpret_cast<int*>(memory),
          needed > kTicketBytes ? reinterpret_cast<BlockClasses*>(memory + kTicketBytes) : nullptr};
}

absl::Status Run(const AttentionParams& p, const ExecutionContext& context) {
  // What Supports could not see while pointers were unknown.
  RETURN_IF_ERROR(CheckLayout(p));
  if (p.cu_seqlens_q == nullptr && p.q.batch != p.batch_size)
    return absl::UnimplementedError("q: one batch entry for several sequences");
  if (p.cu_seqlens_k == nullptr && p.k.batch != p.batch_size)
    return absl::UnimplementedError("k: one batch entry for several sequences");
  const LaunchFunction launch =
      Find(p)->launch[p.q.dtype == DataType::kBFloat16][static_cast<int>(ScoreKindOf(p))];
  RETURN_IF_CUDA_ERROR(launch(p, context.device.num_multiprocessors, DivideWorkspace(p, context),
                              static_cast<cudaStream_t>(context.stream)));
  return absl::OkStatus();
}

}  // namespace

KernelImplementation FusedImplementation() {
  return {"fused", "cuda_fused_sm90", Backend::kCuda, Supports, WorkspaceBytes, Run};
}

}  // namespace attnd::cuda::sm90
