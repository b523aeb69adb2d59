// The scratch memory of one task, for the Highway target being compiled.
#if defined(ATTND_KERNELS_CPU_TILE_SCRATCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTND_KERNELS_CPU_TILE_SCRATCH_INL_H_
#undef ATTND_KERNELS_CPU_TILE_SCRATCH_INL_H_
#else
#define ATTND_KERNELS_CPU_TILE_SCRATCH_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "kernels/cpu/fused_tile.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/tile_products-inl.h"
#include "kernels/cpu/tile_scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd::cpu::HWY_NAMESPACE {

constexpr std::int64_t RoundUp(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

// How a task cuts up its thread's scratch memory.
struct Scratch {
  // `packs`: whether key and value tiles are packed.
  Scratch(std::int64_t rows, std::int64_t dim, std::int64_t dim_v, bool packs)
      : num_strips((rows + kMaxRows - 1) / kMaxRows), out_stride(RoundUp(dim_v, kWidth)) {
    const std::int64_t sizes[] = {
        num_strips * kMaxRows * dim,      num_strips * kMaxRows * out_stride,
        num_strips * kStripRoom,          num_strips * kMaxRows * kLanes,
        packs ? kKeyTile * dim : 0,       packs ? kKeyTile * out_stride : 0,
        std::int64_t{kMaxRows} * kKeyTile};
    float** parts[] = {&q, &out, &m, &l, &k, &v, &scores};
    std::int64_t total = 0;
    for (std::int64_t size : sizes) total += RoundUp(size, kStripRoom);
    float* next = ThreadScratch(total);
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      *parts[i] = next;
      next += RoundUp(sizes[i], kStripRoom);
    }
  }

  std::int64_t num_strips;
  std::int64_t out_stride;
  float* q;  // [num_strips][dim][kMaxRows], or [num_strips][kMaxRows][dim] where nothing is packed
  float* out;     // [num_strips * kMaxRows][out_stride]
  float* m;       // [num_strips][kStripRoom]
  float* l;       // [num_strips][kMaxRows][kLanes]
  float* k;       // [kKeyTile / kWidth][dim][kWidth]
  float* v;       // [out_stride / kWidth][kKeyTile][kWidth]
  float* scores;  // [kMaxRows][kKeyTile]
};

}  // namespace attnd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
