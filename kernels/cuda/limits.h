// Limits that several kernels share.
#pragma once

#include <cstdint>

namespace attnd::cuda {

// The longest sequence whose rows and keys, and tiles past its end, have 32-bit indices.
inline constexpr std::int64_t kMaxTiledSeqlen = (std::int64_t{1} << 31) - 1024;

}  // namespace attnd::cuda
