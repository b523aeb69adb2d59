#include "tests/server/device/illegal_store.h"

namespace attnd {
namespace {

__global__ void IllegalStore(int* address) { *address = 1; }

}  // namespace

cudaError_t LaunchIllegalStore(cudaStream_t stream) {
  IllegalStore<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(0x100));
  return cudaGetLastError();
}

}  // namespace attnd
