// A limit of threads, for tests of what becomes of those that the system refuses.
#pragma once

#include <pthread.h>
#include <sys/resource.h>

#include <cstdint>

namespace attnd::testing {

// Lets this process start `count` threads more and no other, for good: for the child of a death
// test. Every stack takes 8 GiB of an address space of which only so much is left; the limit of
// processes would do better, but does not hold for root. Sanitizers need that space themselves.
inline void AllowThreads(int count) {
  constexpr std::int64_t kStackBytes = std::int64_t{8} << 30;  // more than all else takes
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_setattr_default_np(&attributes);
  const auto bytes = static_cast<rlim_t>((count + 1) * kStackBytes - 1);
  const rlimit address_space = {.rlim_cur = bytes, .rlim_max = bytes};
  setrlimit(RLIMIT_AS, &address_space);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kCanLimitThreads = false;
#else
inline constexpr bool kCanLimitThreads = true;
#endif

}  // namespace attnd::testing
