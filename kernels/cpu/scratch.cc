#include "kernels/cpu/scratch.h"

#include <hwy/aligned_allocator.h>

#include <cstddef>
#include <new>

namespace attnd::cpu {

float* ThreadScratch(std::int64_t num_floats) {
  thread_local hwy::AlignedFreeUniquePtr<float[]> buffer;
  thread_local std::int64_t capacity = 0;
  if (num_floats > capacity) {
    buffer.reset();  // first, so that the old and the new buffer never exist together
    capacity = 0;
    buffer = hwy::AllocateAligned<float>(static_cast<std::size_t>(num_floats));
    if (buffer == nullptr) throw std::bad_alloc();
    capacity = num_floats;
  }
  return buffer.get();
}

}  // namespace attnd::cpu
