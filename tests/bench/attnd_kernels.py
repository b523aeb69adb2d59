"""libattnd_kernels.so on torch tensors: a thin ctypes layer for the benchmarks."""

import ctypes
from ctypes import c_char_p, c_float, c_int32, c_int64, c_size_t, c_void_p

import torch

DTYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2}
CUDA_BACKEND = 1


def _int64_fields(names):
    return [(name, c_int64) for name in names.split()]


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p)] + _int64_fields(
        "dtype batch seqlen heads dim batch_stride seq_stride head_stride"
    )


class ScoreArray(ctypes.Structure):
    _fields_ = [("data", c_void_p)] + _int64_fields(
        "dtype batch heads rows cols batch_stride head_stride row_stride"
    )


class AttentionParams(ctypes.Structure):
    _fields_ = (
        [("struct_size", c_size_t)]
        + _int64_fields("batch_size seqlen_q seqlen_k num_heads num_kv_heads head_dim head_dim_v")
        + [(name, Tensor) for name in ("q", "k", "v", "out")]
        + [("lse", c_void_p)]
        + _int64_fields("lse_batch_stride lse_head_stride")
        + [(name, c_void_p) for name in ("probs", "cu_seqlens_q", "cu_seqlens_k")]
        + [(name, c_void_p) for name in ("lengths_q", "lengths_k")]
        + [("has_softmax_scale", c_int32), ("softmax_scale", c_float), ("softcap", c_float)]
        + [(name, c_int32) for name in ("causal", "has_window_left", "has_window_right")]
        + _int64_fields("window_left window_right")
        + [("mask", ScoreArray), ("bias", ScoreArray), ("alibi_slopes", c_void_p)]
        + [("alibi_batch_stride", c_int64), ("sinks", c_void_p)]
    )


class Execution(ctypes.Structure):
    _fields_ = (
        [("struct_size", c_size_t), ("backend", c_int64), ("algorithm", c_char_p)]
        + [("workspace", c_void_p), ("workspace_bytes", c_int64)]
        + [("parallel_for", c_void_p), ("parallel_for_context", c_void_p), ("stream", c_void_p)]
        + _int64_fields("compute_capability num_multiprocessors shared_memory_per_block_bytes")
    )


def _tensor(t):
    """View of a [batch, heads, seqlen, dim] torch tensor, as torch's attention takes it."""
    batch, heads, seqlen, dim = t.shape
    strides = t.stride()
    assert strides[3] == 1
    sizes = (batch, seqlen, heads, dim, strides[0], strides[2], strides[1])
    return Tensor(t.data_ptr(), DTYPES[t.dtype], *sizes)


class Library:
    def __init__(self, path):
        self._lib = ctypes.CDLL(path)
        self._lib.attnd_last_error.restype = c_char_p
        properties = torch.cuda.get_device_properties(0)
        self._device = dict(
            compute_capability=10 * properties.major + properties.minor,
            num_multiprocessors=properties.multi_processor_count,
            shared_memory_per_block_bytes=properties.shared_memory_per_block_optin,
        )

    def _check(self, code):
        if code != 0:
            raise RuntimeError(self._lib.attnd_last_error().decode())

    def prepare(self, q, k, v, causal, algorithm):
        """Allocates out and workspace. Returns (run, out, workspace bytes); run() enqueues on
        torch's current stream."""
        batch, heads, seqlen_q, head_dim = q.shape
        out = torch.empty(batch, heads, seqlen_q, v.shape[3], dtype=q.dtype, device=q.device)
        params = AttentionParams(
            struct_size=ctypes.sizeof(AttentionParams),
            batch_size=batch,
            seqlen_q=seqlen_q,
            seqlen_k=k.shape[2],
            num_heads=heads,
            num_kv_heads=k.shape[1],
            head_dim=head_dim,
            head_dim_v=v.shape[3],
            q=_tensor(q),
            k=_tensor(k),
            v=_tensor(v),
            out=_tensor(out),
            causal=int(causal),
        )
        execution = Execution(
            struct_size=ctypes.sizeof(Execution),
            backend=CUDA_BACKEND,
            algorithm=algorithm.encode(),
            **self._device,
        )
        arguments = (ctypes.byref(params), ctypes.byref(execution))
        needed = c_int64()
        self._check(self._lib.attnd_attention_workspace(*arguments, ctypes.byref(needed)))
        workspace = torch.empty(max(needed.value, 1), dtype=torch.uint8, device=q.device)
        execution.workspace = workspace.data_ptr()
        execution.workspace_bytes = needed.value
        tensors = (q, k, v, out, workspace)

        def run(keep_alive=tensors):
            execution.stream = torch.cuda.current_stream().cuda_stream
            self._check(self._lib.attnd_attention(*arguments))

        return run, out, needed.value
