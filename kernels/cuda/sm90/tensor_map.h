// Describing a tensor to the copy engine.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "kernels/tensor_view.h"

namespace attnd::cuda::sm90 {

// Fills *map: dimensions (dim, seqlen, heads, batch) of `view`, and a box of `box_rows` rows by one
// swizzle span of `swizzle_bytes` (128 or 64). Wants 16-bit elements, a 16-byte aligned base and,
// along dimensions longer than 1, strides that are positive multiples of 8 elements. An empty
// tensor gets a map that must not be used. cudaErrorInvalidValue when the driver refuses,
// cudaErrorNotSupported when it has no tensor maps. Loads no driver library: the function is looked
// up through the runtime, so that a binary starts without a GPU.
cudaError_t EncodeTensorMap(const TensorView& view, int box_rows, int swizzle_bytes,
                            CUtensorMap* map);

}  // namespace attnd::cuda::sm90
