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

// Whether the copy engine can read a bias or mask of elements of `element_bytes` (1, 2 or 4): it
// wants rows of its own for each query, at multiples of 16 bytes.
bool ScoreArrayCopyable(const BiasView& view, std::int64_t element_bytes, std::int64_t seqlen_q);

// Fills *map for such an array: dimensions (keys, rows, heads, batch) and a box of `box_rows` rows
// of `box_keys` keys, which is not swizzled. Errors as EncodeTensorMap.
cudaError_t EncodeScoreMap(const BiasView& view, std::int64_t element_bytes, int box_rows,
                           int box_keys, CUtensorMap* map);

}  // namespace attnd::cuda::sm90
