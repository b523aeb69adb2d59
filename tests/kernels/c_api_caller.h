// Causal attention of one head in float32, computed through the C ABI by C code.
#ifndef TESTS_KERNELS_C_API_CALLER_H_
#define TESTS_KERNELS_C_API_CALLER_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// q, k, v, out: [seqlen, dim]; lse: [seqlen]. Returns attnd_attention's code.
int32_t attend_from_c(const float* q, const float* k, const float* v, int64_t seqlen, int64_t dim,
                      float* out, float* lse);

#ifdef __cplusplus
}
#endif

#endif  // TESTS_KERNELS_C_API_CALLER_H_
