#include "kernels/cpu/scratch.h"

#include <hwy/aligned_allocator.h>

#include <cstddef>

namespace attnd::cpu {

float* ThreadScratch(std::int64_t num_floats) {
  thread_local hwy::AlignedFreeUniquePtr<float[]> buffer;
  thread_local std::int64_t capacity = 0;
  if (num_floats > capacity) {
    buffer.reset();  // first, so that the old and the new buffer never exist together
    buffer = hwy::AllocateAligned<float>(static_cast<std::size_t>(num_floats));
    capacity = num_floats;
  }
  return buffer.get();
}

}  // namespace attnd::cpu
