#include "kernels/cpu/fused_tile.h"

#include <cstdint>

// This file is compiled once for each instruction set and the best one is chosen at run time. On
// x86 the least is SSE4: without it Highway has one-lane vectors only, which the kernels do not do
// with.
#if defined(__x86_64__)
#define HWY_BASELINE_TARGETS HWY_SSE4
#endif
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/fused_tile.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/tile_finish-inl.h"
#include "kernels/cpu/tile_task-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attnd::cpu::HWY_NAMESPACE {

// Calls f with a value of the element type of q, k and v.
template <class F>
void WithElementType(DataType dtype, const F& f) {
  switch (dtype) {
    case DataType::kFloat32:
      return f(float());
    case DataType::kFloat16:
      return f(hwy::float16_t());
    case DataType::kBFloat16:
      return f(hwy::bfloat16_t());
  }
}

void Attend(const FusedTile& tile) {
  WithElementType(tile.params->q.dtype, [&](auto element) {
    TileTask<decltype(element)> task(tile);
    task.Run();
    task.Finish();
  });
}

void AttendPartially(const FusedTile& tile, const PartialState& partial) {
  WithElementType(tile.params->q.dtype, [&](auto element) {
    TileTask<decltype(element)> task(tile);
    task.Run();
    task.CopyState(partial);
  });
}

void Merge(const FusedTile& tile, float* parts, std::int64_t num_parts, std::int64_t part_floats) {
  for (std::int64_t i = 0; i < tile.row_end - tile.row_begin; ++i)
    MergeRow(tile, i, parts, num_parts, part_floats);
}

}  // namespace attnd::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace attnd::cpu {

HWY_EXPORT(Attend);
HWY_EXPORT(AttendPartially);
HWY_EXPORT(Merge);

bool HasInstructionSet() {
  // Asked once: CPUID takes microseconds in a virtual machine.
  static const bool kHas = (hwy::SupportedTargets() & HWY_TARGETS) != 0;
  return kHas;
}

std::int64_t PartialStateFloats(std::int64_t rows, std::int64_t head_dim_v) {
  return rows * (head_dim_v + 2);
}

PartialState PartialStateAt(float* memory, std::int64_t rows) {
  return {memory, memory + rows, memory + 2 * rows};
}

void AttendTile(const FusedTile& tile) { HWY_DYNAMIC_DISPATCH(Attend)(tile); }

void AttendTilePartially(const FusedTile& tile, const PartialState& partial) {
  HWY_DYNAMIC_DISPATCH(AttendPartially)(tile, partial);
}

void MergeTile(const FusedTile& tile, float* parts, std::int64_t num_parts,
               std::int64_t part_floats) {
  HWY_DYNAMIC_DISPATCH(Merge)(tile, parts, num_parts, part_floats);
}

}  // namespace attnd::cpu
#endif  // HWY_ONCE
