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

// Four dimensions, innermost first, whose elements lie side by side. Strides in bytes.
struct Layout {
  const void* data;
  CUtensorMapDataType type;
  std::int64_t sizes[4];
  std::int64_t strides[3];
  int box[2];  // columns and rows
  CUtensorMapSwizzle swizzle;
};

cudaError_t Encode(const Layout& layout, CUtensorMap* map) {
  static const EncodeFunction encode = LookUpEncodeFunction();
  if (encode == nullptr) return cudaErrorNotSupported;
  cuuint64_t sizes[4];
  cuuint64_t strides[3];
  for (int i = 0; i < 4; ++i) sizes[i] = static_cast<cuuint64_t>(layout.sizes[i]);
  // The stride of a dimension of size 1 is never used and may hold anything; the driver checks it
  // nevertheless.
  constexpr cuuint64_t kAnyValidStride = 16;
  for (int i = 0; i < 3; ++i)
    strides[i] = sizes[i + 1] > 1 ? static_cast<cuuint64_t>(layout.strides[i]) : kAnyValidStride;
  const cuuint32_t box[4] = {static_cast<cuuint32_t>(layout.box[0]),
                             static_cast<cuuint32_t>(layout.box[1]), 1, 1};
  const cuuint32_t element_strides[4] = {1, 1, 1, 1};
  const CUresult result =
      encode(map, layout.type, 4, const_cast<void*>(layout.data), sizes, strides, box,
             element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE, layout.swizzle,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace

cudaError_t EncodeTensorMap(const TensorView& view, int box_rows, int swizzle_bytes,
                            CUtensorMap* map) {
  *map = {};
  if (view.batch == 0 || view.seqlen == 0 || view.heads == 0) return cudaSuccess;
  return Encode({view.data,
                 view.dtype == DataType::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                                  : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                 {view.dim, view.seqlen, view.heads, view.batch},
                 {2 * view.seq_stride, 2 * view.head_stride, 2 * view.batch_stride},
                 {swizzle_bytes / 2, box_rows},
                 swizzle_bytes == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B},
                map);
}

bool ScoreArrayCopyable(const BiasView& view, std::int64_t element_bytes, std::int64_t seqlen_q) {
  constexpr std::int64_t kStrideUnit = 16;
  constexpr std::int64_t kStrideLimit = std::int64_t{1} << 40;
  const auto steps = [element_bytes](std::int64_t size, std::int64_t stride) {
    const std::int64_t most = kStrideLimit / element_bytes;
    return size <= 1 || (stride > 0 && stride < most && stride * element_bytes % kStrideUnit == 0);
  };
  return view.data != nullptr && view.cols > 0 && view.rows >= seqlen_q &&
         reinterpret_cast<std::uintptr_t>(view.data) % kStrideUnit == 0 &&
         steps(view.batch, view.batch_stride) && steps(view.heads, view.head_stride) &&
         steps(view.rows, view.row_stride);
}

cudaError_t EncodeScoreMap(const BiasView& view, std::int64_t element_bytes, int box_rows,
                           int box_keys, CUtensorMap* map) {
  return Encode({view.data,
                 element_bytes == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                 : element_bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                                      : CU_TENSOR_MAP_DATA_TYPE_UINT32,
                 {view.cols, view.rows, view.heads, view.batch},
                 {element_bytes * view.row_stride, element_bytes * view.head_stride,
                  element_bytes * view.batch_stride},
                 {box_keys, box_rows},
                 CU_TENSOR_MAP_SWIZZLE_NONE},
                map);
}

}  // namespace attnd::cuda::sm90
