// Whether tensors may be read and written 16 bytes at a time.
#pragma once

#include <cstdint>

#include "kernels/attention_params.h"

namespace attnd::cuda {

// True if every row of `view` starts at a multiple of 16 bytes. Strides of dimensions with one
// entry are never multiplied by anything but 0 and may have any value. A null pointer is aligned:
// it stands for memory yet to be reserved.
template <typename View>
bool RowsAligned(const View& view) {
  constexpr std::int64_t kAlignmentBytes = 16;
  const std::int64_t elements = kAlignmentBytes / SizeOf(view.dtype);
  return reinterpret_cast<std::uintptr_t>(view.data) % kAlignmentBytes == 0 &&
         (view.batch <= 1 || view.batch_stride % elements == 0) &&
         (view.seqlen <= 1 || view.seq_stride % elements == 0) &&
         (view.heads <= 1 || view.head_stride % elements == 0);
}

}  // namespace attnd::cuda
