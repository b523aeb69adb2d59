// Scratch memory that belongs to a thread.
#pragma once

#include <cstdint>

namespace attnd::cpu {

// `num_floats` uninitialised floats, aligned to a cache line. They live until the calling thread's
// next call or its end: one buffer a thread, grown as needed and reused, so that a task allocates
// nothing once its thread is warm. Throws std::bad_alloc.
float* ThreadScratch(std::int64_t num_floats);

}  // namespace attnd::cpu
