// Launching more blocks than one grid may have. Work items are numbered in one dimension: grid y
// and z end at 65535, which a batch times its heads exceeds.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>

namespace attnd::cuda {

// Calls launch(blocks, first) for consecutive ranges [first, first + blocks) that cover [0, total),
// each small enough for grid x. Returns the launches' last error.
template <typename Launch>
cudaError_t LaunchInRanges(std::int64_t total, Launch launch) {
  constexpr std::int64_t kMaxBlocks = (std::int64_t{1} << 31) - 1;
  for (std::int64_t first = 0; first < total; first += kMaxBlocks)
    launch(static_cast<unsigned>(std::min(total - first, kMaxBlocks)), first);
  return cudaGetLastError();
}

}  // namespace attnd::cuda
