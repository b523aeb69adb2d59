// Marks functions that both the host compiler and the CUDA compiler build: one definition of the
// rules (masks, online softmax, sequence bounds) serves every implementation.
#pragma once

#if defined(__CUDACC__)
#define ATTND_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define ATTND_HOST_DEVICE inline
#endif
