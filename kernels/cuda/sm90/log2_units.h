// Natural logarithms and those of base 2, in which the hardware takes exponentials.
#pragma once

namespace attnd::cuda::sm90 {

inline constexpr float kLog2E = 1.4426950408889634f;
inline constexpr float kLn2 = 0.6931471805599453f;

}  // namespace attnd::cuda::sm90
