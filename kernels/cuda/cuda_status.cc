#include "kernels/cuda/cuda_status.h"

#include "absl/strings/str_cat.h"

namespace attnd::cuda {

absl::Status StatusFromCuda(cudaError_t error, std::string_view call, const char* file, int line) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();
  return absl::InternalError(absl::StrCat("CUDA: ", absl::string_view(call.data(), call.size()),
                                          " failed: ", cudaGetErrorName(error), " (",
                                          cudaGetErrorString(error), ") at ", file, ":", line));
}

}  // namespace attnd::cuda
