/* A caller in C: shows that a C compiler accepts attnd_kernels.h, and how the library is used from
 * C. */
#include "tests/kernels/c_api_caller.h"

#include <stddef.h>

#include "kernels/attnd_kernels.h"

/* [1, seqlen, 1, dim], contiguous. */
static attnd_tensor dense(const float* data, int64_t seqlen, int64_t dim) {
  attnd_tensor tensor = {0};
  tensor.data = (void*)data;
  tensor.dtype = ATTND_FLOAT32;
  tensor.batch = 1;
  tensor.seqlen = seqlen;
  tensor.heads = 1;
  tensor.dim = dim;
  tensor.batch_stride = seqlen * dim;
  tensor.seq_stride = dim;
  tensor.head_stride = dim;
  return tensor;
}

int32_t attend_from_c(const float* q, const float* k, const float* v, int64_t seqlen, int64_t dim,
                      float* out, float* lse) {
  attnd_attention_params params = {sizeof(params)};
  attnd_execution execution = {sizeof(execution)};
  params.batch_size = 1;
  params.seqlen_q = seqlen;
  params.seqlen_k = seqlen;
  params.num_heads = 1;
  params.num_kv_heads = 1;
  params.head_dim = dim;
  params.head_dim_v = dim;
  params.q = dense(q, seqlen, dim);
  params.k = dense(k, seqlen, dim);
  params.v = dense(v, seqlen, dim);
  params.out = dense(out, seqlen, dim);
  params.lse = lse;
  params.causal = 1;
  execution.backend = ATTND_CPU;
  execution.algorithm = "online";
  return attnd_attention(&params, &execution);
}
