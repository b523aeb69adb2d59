#include <cstdint>

#include "kernels/cuda/sm90/tensor_map.h"

namespace attnd::cuda::sm90 {
namespace {

using EncodeFunction = decltype(&cuTensorMapEncodeTiled);

EncodeFunction LookUpEncodeFunction() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
  const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                             12000, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<EncodeFunction>(function);
}

// The stride of a dimension of size 1 is never used and may hold anything; the driver checks it
// nevertheless.
cuuint64_t StrideBytes(std::int64_t size, std::int64_t stride_elements) {
  constexpr cuuint64_t kAnyValidStride = 16;
  return size > 1 ? static_cast<cuuint64_t>(stride_elements) * 2 : kAnyValidStride;
}

}  // namespace

cudaError_t EncodeTensorMap(const TensorView& view, int box_rows, int swizzle_bytes,
                            CUtensorMap* map) {
  *map = {};
  if (view.batch == 0 || view.seqlen == 0 || view.heads == 0) return cudaSuccess;
  static const EncodeFunction encode = LookUpEncodeFunction();
  if (encode == nullptr) return cudaErrorNotSupported;
  const cuuint64_t sizes[4] = {
      static_cast<cuuint64_t>(view.dim), static_cast<cuuint64_t>(view.seqlen),
      static_cast<cuuint64_t>(view.heads), static_cast<cuuint64_t>(view.batch)};
  const cuuint64_t strides[3] = {StrideBytes(view.seqlen, view.seq_stride),
                                 StrideBytes(view.heads, view.head_stride),
                                 StrideBytes(view.batch, view.batch_stride)};
  const cuuint32_t box[4] = {static_cast<cuuint32_t>(swizzle_bytes / 2),
                             static_cast<cuuint32_t>(box_rows), 1, 1};
  const cuuint32_t element_strides[4] = {1, 1, 1, 1};
  const CUresult result =
      encode(map,
             view.dtype == DataType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                              : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
             4, const_cast<void*>(view.data), sizes, strides, box, element_strides,
             CU_TENSOR_MAP_INTERLEAVE_NONE,
             swizzle_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace attnd::cuda::sm90
