/* The attention kernels as a C library, libattnd_kernels.so: on the caller's own pointers, streams
 * and threads. It allocates no device memory, starts no thread, and never synchronises with a
 * device.
 *
 * Every struct begins with its own size, sizeof as the caller compiled it; all other bytes 0 mean
 * the defaults stated at the fields. A struct of an older version of this header, hence shorter, is
 * accepted and its missing fields have their defaults; one that is longer than the library knows is
 * refused, since it might ask for something the library would silently ignore.
 *
 * Functions return a status code and never throw. attnd_last_error() has the words that go with it.
 * All functions may be called from any thread at any time.
 */
#ifndef ATTND_KERNELS_H_
#define ATTND_KERNELS_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ATTND_API __attribute__((visibility("default")))
#else
#define ATTND_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Status codes: those of gRPC and Abseil. */
enum {
  ATTND_OK = 0,
  ATTND_INVALID_ARGUMENT =
      3, /* sizes, types, options or pointers do not fit: the text names the field */
  ATTND_RESOURCE_EXHAUSTED = 8, /* out of host memory */
  ATTND_UNIMPLEMENTED = 12,     /* sound, but no kernel of this build computes it on this device */
  ATTND_INTERNAL = 13           /* a CUDA call failed, or the caller's parallel_for threw */
};

/* Element types. */
enum { ATTND_FLOAT32 = 0, ATTND_FLOAT16 = 1, ATTND_BFLOAT16 = 2 };

/* Backends. */
enum { ATTND_CPU = 0, ATTND_CUDA = 1 };

/* [batch, seqlen, heads, dim]; strides count elements, that of dim is 1. Packed sequences,
 * [total, heads, dim]: batch 1, seqlen total, batch_stride 0. */
typedef struct attnd_tensor {
  void* data;
  int64_t dtype;
  int64_t batch;
  int64_t seqlen;
  int64_t heads;
  int64_t dim;
  int64_t batch_stride;
  int64_t seq_stride;
  int64_t head_stride;
} attnd_tensor;

/* [batch, heads, rows, cols], for a mask or a bias; cols has stride 1. A dimension of size 1 serves
 * all and has stride 0. All zero: absent. */
typedef struct attnd_score_array {
  const void* data;
  int64_t dtype; /* of a bias: float32 or the type of q. Of a mask: ignored, one byte an element */
  int64_t batch;
  int64_t heads;
  int64_t rows;
  int64_t cols;
  int64_t batch_stride;
  int64_t head_stride;
  int64_t row_stride;
} attnd_score_array;

/* An attention problem: out = softmax(scores) v, the scores built in this order for query row i and
 * key j of a sequence: s = softmax_scale * q_i . k_j; s = softcap * tanh(s / softcap); s += bias[i,
 * j]; s -= alibi_slope * |i + seqlen_k - seqlen_q - j|; s = -inf where length, causal, window or
 * mask forbid. A row that may attend to nothing gives out = 0, lse = -inf (with a sink: lse =
 * sink). All pointers lie in the memory of the device that computes. `out` may not overlap an
 * input. */
typedef struct attnd_attention_params {
  size_t struct_size;

  int64_t batch_size;
  int64_t seqlen_q; /* of the longest sequence, as seqlen_k */
  int64_t seqlen_k;
  int64_t num_heads;
  int64_t num_kv_heads; /* divides num_heads */
  int64_t head_dim;     /* a multiple of 8, at most 256; as head_dim_v */
  int64_t head_dim_v;

  attnd_tensor q; /* [batch_size, seqlen_q, num_heads, head_dim] or packed */
  attnd_tensor k; /* [batch_size, seqlen_k, num_kv_heads, head_dim] or packed; dtype of q */
  attnd_tensor v; /* [batch_size, seqlen_k, num_kv_heads, head_dim_v] or packed; dtype of q */
  attnd_tensor
      out; /* [batch_size, seqlen_q, num_heads, head_dim_v] or packed; dtype of q or float32 */

  /* From here on everything is optional. */

  float* lse; /* natural log of the softmax denominator: [batch_size, num_heads, seqlen_q] or,
                 packed, [num_heads, total_q] */
  int64_t lse_batch_stride;
  int64_t lse_head_stride;
  float* probs; /* the weights: contiguous [batch_size, num_heads, seqlen_q, seqlen_k] */

  const int32_t* cu_seqlens_q; /* packed: prefix sums, [batch_size + 1], first 0; both or neither */
  const int32_t* cu_seqlens_k;
  const int32_t* lengths_q; /* rows in use of each sequence, [batch_size] */
  const int32_t* lengths_k;

  int32_t has_softmax_scale; /* 0: 1 / sqrt(head_dim) */
  float softmax_scale;
  float softcap; /* 0: off */
  int32_t causal;
  int32_t has_window_left; /* 0: all keys to the left */
  int32_t has_window_right;
  int64_t window_left; /* keys to the left of the row's own position that it sees; at least 0 */
  int64_t window_right;

  attnd_score_array mask; /* non-zero bytes: may attend */
  attnd_score_array bias;
  const float* alibi_slopes; /* [num_heads], or [batch_size, num_heads] with the stride num_heads */
  int64_t alibi_batch_stride; /* 0 or num_heads */
  const float* sinks;         /* [num_heads] */
} attnd_attention_params;

/* Combines num_parts partial results (out, lse) over disjoint sets of keys, in the order given. An
 * empty part, lse = -inf, changes nothing; its out is not read. All arrays are contiguous. */
typedef struct attnd_merge_params {
  size_t struct_size;
  int64_t num_parts; /* at least 1 */
  int64_t rows;      /* batch_size * seqlen_q * num_heads */
  int64_t head_dim_v;
  const float* out_parts; /* [num_parts, rows, head_dim_v] */
  const float* lse_parts; /* [num_parts, rows] */
  void* out;              /* [rows, head_dim_v] */
  int64_t out_dtype;

  /* From here on everything is optional. */

  float* lse; /* [rows] */
} attnd_merge_params;

/* Calls task(task_context, i) once for each i in [0, num_tasks), on any threads and in any order,
 * and returns when all have returned. */
typedef void (*attnd_parallel_for)(void* context, int64_t num_tasks,
                                   void (*task)(void* task_context, int64_t i), void* task_context);

/* Where and how to compute. */
typedef struct attnd_execution {
  size_t struct_size;
  int64_t backend;

  /* From here on everything is optional. */

  const char*
      algorithm; /* "fused", "online", "two_pass", "naive" or "reference"; NULL: the best one */

  void* workspace; /* attnd_attention_workspace bytes of device memory, 256-byte aligned */
  int64_t workspace_bytes;

  /* CPU: how to spread the work; NULL: on the calling thread. */
  attnd_parallel_for parallel_for;
  void* parallel_for_context;

  /* CUDA: the cudaStream_t to enqueue on, and what cudaDeviceGetAttribute says of the current
   * device. */
  void* stream;
  int64_t compute_capability; /* 10 * major + minor */
  int64_t num_multiprocessors;
  int64_t shared_memory_per_block_bytes; /* the opt-in limit */
} attnd_execution;

/* An implementation in this build. */
typedef struct attnd_kernel_info {
  size_t struct_size;
  const char* algorithm; /* static strings */
  const char* name;
} attnd_kernel_info;

/* Bytes of workspace that attnd_attention needs for the problem. Reads no array that `params`
 * points to, and compares pointers with NULL only. */
ATTND_API int32_t attnd_attention_workspace(const attnd_attention_params* params,
                                            const attnd_execution* execution, int64_t* bytes);

/* Computes; on CUDA, enqueues on execution->stream and returns: all memory must live until the
 * stream passes that point. Lengths and prefix sums are checked on the CPU only. */
ATTND_API int32_t attnd_attention(const attnd_attention_params* params,
                                  const attnd_execution* execution);

/* The same for a merge. Needs no workspace; execution->algorithm is ignored. */
ATTND_API int32_t attnd_merge(const attnd_merge_params* params, const attnd_execution* execution);

/* How many implementations a backend has in this build, and the one of an index, best first within
 * an algorithm. ATTND_INVALID_ARGUMENT past the last. */
ATTND_API int64_t attnd_kernel_count(int64_t backend);
ATTND_API int32_t attnd_kernel_at(int64_t backend, int64_t index, attnd_kernel_info* info);

/* Version of the library, e.g. "0.1.0". */
ATTND_API const char* attnd_version(void);

/* What the last function called on this thread that returns a status code had to say: "" after
 * ATTND_OK. Valid until the next such call on this thread. */
ATTND_API const char* attnd_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* ATTND_KERNELS_H_ */
