// Checks of fuzz targets, in every build type.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace attnd::fuzz {

inline void CheckInvariant(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken invariant: %s\n", what);
  std::abort();
}

}  // namespace attnd::fuzz
