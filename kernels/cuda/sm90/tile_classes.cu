#include <algorithm>

#include "kernels/cuda/sm90/tile_classes.h"

namespace attnd::cuda::sm90 {
namespace {

constexpr int kThreads = 128;
constexpr std::int64_t kFewBlocks = 4;
constexpr int kVectorBytes = sizeof(uint4);

// What a thread has seen of a part of the mask.
struct Seen {
  bool some = false;
  bool all = true;

  __device__ void Add(std::uint32_t zero_bytes, std::uint32_t bytes) {
    all = all && zero_bytes == 0;
    some = some || zero_bytes != bytes;
  }
  __device__ void AddByte(std::uint8_t byte) { Add(byte == 0, 1); }
  __device__ void AddWord(std::uint32_t word) { Add(__vcmpeq4(word, 0), 0xffffffffu); }
  __device__ void AddVector(const uint4& v) {
    AddWord(v.x);
    AddWord(v.y);
    AddWord(v.z);
    AddWord(v.w);
  }
};

struct Rectangle {
  const std::uint8_t* first;
  std::int64_t row_stride;
  int rows;
  int keys;
};

// The class of a rectangle of the mask; run by a whole block. Nothing at all is empty.
__device__ BlockClass Classify(const Rectangle& r) {
  Seen seen;
  const bool aligned = reinterpret_cast<std::uintptr_t>(r.first) % kVectorBytes == 0 &&
                       r.row_stride % kVectorBytes == 0;
  const int vectors = aligned ? r.keys / kVectorBytes : 0;
  for (int i = threadIdx.x; i < r.rows * vectors; i += kThreads) {
    const int row = i / vectors;
    seen.AddVector(*reinterpret_cast<const uint4*>(r.first + row * r.row_stride +
                                                   (i - row * vectors) * kVectorBytes));
  }
  const int vector_keys = vectors * kVectorBytes;
  const int tail = r.keys - vector_keys;
  for (int i = threadIdx.x; i < r.rows * tail; i += kThreads) {
    const int row = i / tail;
    seen.AddByte(r.first[row * r.row_stride + vector_keys + i - row * tail]);
  }
  const bool some = __syncthreads_or(seen.some) != 0;
  const bool all = __syncthreads_and(seen.all) != 0;
  return !some ? BlockClass::kEmpty : all ? BlockClass::kFull : BlockClass::kPartial;
}

// `index` counts all blocks of all tiles.
__device__ BlockClasses ClassifyBlock(const MaskView& mask, std::int64_t seqlen_q,
                                      std::int64_t seqlen_k, TileShape shape,
                                      const TileClasses& classes, std::int64_t index) {
  const std::int64_t block = index % classes.blocks;
  const std::int64_t row = index / classes.blocks % classes.rows * shape.rows;
  const std::int64_t plane = index / classes.blocks / classes.rows;
  const std::int64_t key = block * shape.keys;
  Rectangle r;
  r.row_stride = mask.row_stride;
  r.keys = static_cast<int>(min(static_cast<std::int64_t>(shape.keys), seqlen_k - key));
  const std::int64_t plane_offset =
      plane / classes.heads * mask.batch_stride + plane % classes.heads * mask.head_stride;
  if (mask.rows == 1) {
    r.first = mask.data + plane_offset + key;
    r.rows = 1;
    return BlockClasses::All(Classify(r));
  }
  BlockClasses result = {0};
  for (int group = 0; group * 64 < shape.rows; ++group) {
    const std::int64_t first = row + 64 * group;
    r.first = mask.data + plane_offset + first * mask.row_stride + key;
    r.rows = static_cast<int>(max(min(seqlen_q - first, std::int64_t{64}), std::int64_t{0}));
    result.bits |= static_cast<std::uint8_t>(static_cast<int>(Classify(r)) << 2 * group);
  }
  return result;
}

__global__ void __launch_bounds__(kThreads)
    ClassifyTilesKernel(MaskView mask, std::int64_t seqlen_q, std::int64_t seqlen_k,
                        TileShape shape, TileClasses classes, std::int64_t size) {
  for (std::int64_t index = blockIdx.x; index < size; index += gridDim.x) {
    const BlockClasses result = ClassifyBlock(mask, seqlen_q, seqlen_k, shape, classes, index);
    if (threadIdx.x == 0) classes.memory[index] = result;
  }
}

}  // namespace

TileClasses DescribeTileClasses(const AttentionParams& p, TileShape shape) {
  TileClasses classes;
  if (p.mask.data == nullptr || p.seqlen_k <= kFewBlocks * shape.keys) return classes;
  classes.batch = p.mask.batch;
  classes.heads = p.mask.heads;
  classes.rows = p.mask.rows > 1 ? (p.seqlen_q + shape.rows - 1) / shape.rows : 1;
  classes.blocks = (p.seqlen_k + shape.keys - 1) / shape.keys;
  return classes;
}

cudaError_t ClassifyTiles(const AttentionParams& p, TileShape shape, const TileClasses& classes,
                          cudaStream_t stream) {
  constexpr std::int64_t kMostBlocks = 1 << 20;
  const std::int64_t size = classes.size();
  if (size == 0) return cudaSuccess;
  const auto blocks = static_cast<unsigned>(std::min(size, kMostBlocks));
  ClassifyTilesKernel<<<blocks, kThreads, 0, stream>>>(p.mask, p.seqlen_q, p.seqlen_k, shape,
                                                       classes, size);
  return cudaGetLastError();
}

}  // namespace attnd::cuda::sm90
