// How large the weights of a row may become before its maximum has to move.
#pragma once

#include <cstdint>

namespace attnd::cuda::sm90 {

// Of weights that begin `kHeadroom` powers of 2 under 1. Those that begin at 1 may be float16's,
// which holds 2^15; others leave values up to 2^80 room to be weighed and added up.
template <int kHeadroom>
struct LargestWeight {
  // Where the exponent of a row's largest score is more, its maximum moves.
  static constexpr int kExponent = kHeadroom == 0 ? 15 : 45;

  // If a thread's weights of a row add up to less, the maximum need not move for any of them,
  // however they were rounded.
  static constexpr float kSurelyFits = static_cast<float>(std::int64_t{1} << (kExponent - 1));
};

}  // namespace attnd::cuda::sm90
