// Needs no device: errors are values.
#include "kernels/cuda/cuda_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace attnd::cuda {
namespace {

using ::testing::HasSubstr;

absl::Status FailAfter(int& calls) {
  RETURN_IF_CUDA_ERROR((++calls, cudaSuccess));
  RETURN_IF_CUDA_ERROR((++calls, cudaErrorInvalidValue));
  ++calls;
  return absl::OkStatus();
}

TEST(CudaStatusTest, SuccessIsOk) {
  EXPECT_TRUE(StatusFromCuda(cudaSuccess, "cudaMalloc(p, n)", "file.cc", 7).ok());
}

TEST(CudaStatusTest, AnErrorTellsCallNameTextAndPlace) {
  const absl::Status status =
      StatusFromCuda(cudaErrorMemoryAllocation, "cudaMalloc(p, n)", "file.cc", 7);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  const std::string text(status.message());
  EXPECT_THAT(text, HasSubstr("cudaMalloc(p, n)"));
  EXPECT_THAT(text, HasSubstr("cudaErrorMemoryAllocation"));
  EXPECT_THAT(text, HasSubstr(cudaGetErrorString(cudaErrorMemoryAllocation)));
  EXPECT_THAT(text, HasSubstr("file.cc:7"));
}

TEST(CudaStatusTest, TheMacroEvaluatesOnceAndReturnsAtTheFirstError) {
  int calls = 0;
  const absl::Status status = FailAfter(calls);
  EXPECT_EQ(calls, 2);
  EXPECT_THAT(std::string(status.message()), HasSubstr("cudaErrorInvalidValue"));
}

}  // namespace
}  // namespace attnd::cuda
