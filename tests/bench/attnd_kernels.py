"""libattnd_kernels.so on torch tensors: a thin ctypes layer for the benchmarks. The structs are
those of kernels/attnd_kernels.h, field by field."""

import ctypes
import dataclasses
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


@dataclasses.dataclass(frozen=True)
class Options:
    """What an attention problem may have beside q, k and v, with the meaning it has in
    attnd_attention_params; None: absent. Tensors lie where q does."""

    causal: bool = False
    window_left: int | None = None
    window_right: int | None = None
    softmax_scale: float | None = None
    softcap: float = 0.0
    mask: torch.Tensor | None = None  # bool; [batch, heads, seqlen_q, seqlen_k], each may be 1
    bias: torch.Tensor | None = None  # likewise; float32 or the type of q
    alibi_slopes: torch.Tensor | None = None  # float32 [heads] or [batch, heads]
    sinks: torch.Tensor | None = None  # float32 [heads]
    # Written: float32 [batch, heads, seqlen_q]; packed [1, heads, total_q].
    lse: torch.Tensor | None = None
    # Packed sequences: int32 [sequences + 1]; q, k and v are then [1, heads, total, dim].
    cu_seqlens_q: torch.Tensor | None = None
    cu_seqlens_k: torch.Tensor | None = None
    max_seqlen_q: int = 0
    max_seqlen_k: int = 0

    def tensors(self):
        values = (getattr(self, field.name) for field in dataclasses.fields(self))
        return tuple(value for value in values if isinstance(value, torch.Tensor))


def _stride(t, dim):
    """What the C ABI wants of a dimension: of one that serves all, 0."""
    return t.stride(dim) if t.shape[dim] > 1 else 0


def _tensor(t):
    """View of a torch tensor [batch, heads, seqlen, dim], in whatever order its memory is."""
    batch, heads, seqlen, dim = t.shape
    if t.stride(3) != 1:
        raise ValueError(f"stride {t.stride(3)} of dim; 1 is accepted")
    sizes = (batch, seqlen, heads, dim, _stride(t, 0), t.stride(2), t.stride(1))
    return Tensor(t.data_ptr(), DTYPES[t.dtype], *sizes)


def _score_array(t):
    """View of a mask or bias [batch, heads, rows, cols]; of None: absent."""
    if t is None:
        return ScoreArray()
    if t.stride(3) != 1:
        raise ValueError(f"stride {t.stride(3)} of a mask's or bias's columns; 1 is accepted")
    dtype = 0 if t.dtype == torch.bool else DTYPES[t.dtype]
    return ScoreArray(t.data_ptr(), dtype, *t.shape, *(_stride(t, dim) for dim in range(3)))


def _pointer(t, dtype):
    if t is None:
        return None
    if t.dtype != dtype or not t.is_contiguous():
        raise ValueError(f"{t.dtype}, strides {t.stride()}; contiguous {dtype} is accepted")
    return t.data_ptr()


def _empty_output(q, dim):
    """NaN, so that what a kernel leaves unwritten shows; in the memory order of q."""
    batch, heads, seqlen, _ = q.shape
    options = dict(dtype=q.dtype, device=q.device)
    if q.stride(1) < q.stride(2):
        return torch.full((batch, seqlen, heads, dim), torch.nan, **options).transpose(1, 2)
    return torch.full((batch, heads, seqlen, dim), torch.nan, **options)


def _params(q, k, v, out, options):
    packed = options.cu_seqlens_q is not None
    alibi, lse = options.alibi_slopes, options.lse
    return AttentionParams(
        struct_size=ctypes.sizeof(AttentionParams),
        batch_size=options.cu_seqlens_q.numel() - 1 if packed else q.shape[0],
        seqlen_q=options.max_seqlen_q if packed else q.shape[2],
        seqlen_k=options.max_seqlen_k if packed else k.shape[2],
        num_heads=q.shape[1],
        num_kv_heads=k.shape[1],
        head_dim=q.shape[3],
        head_dim_v=v.shape[3],
        q=_tensor(q),
        k=_tensor(k),
        v=_tensor(v),
        out=_tensor(out),
        lse=_pointer(lse, torch.float32),
        lse_batch_stride=0 if lse is None else _stride(lse, 0),
        lse_head_stride=0 if lse is None else lse.stride(1),
        cu_seqlens_q=_pointer(options.cu_seqlens_q, torch.int32),
        cu_seqlens_k=_pointer(options.cu_seqlens_k, torch.int32),
        has_softmax_scale=int(options.softmax_scale is not None),
        softmax_scale=options.softmax_scale or 0.0,
        softcap=options.softcap,
        causal=int(options.causal),
        has_window_left=int(options.window_left is not None),
        has_window_right=int(options.window_right is not None),
        window_left=options.window_left or 0,
        window_right=options.window_right or 0,
        mask=_score_array(options.mask),
        bias=_score_array(options.bias),
        alibi_slopes=_pointer(alibi, torch.float32),
        alibi_batch_stride=alibi.stride(0) if alibi is not None and alibi.dim() == 2 else 0,
        sinks=_pointer(options.sinks, torch.float32),
    )


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

    def prepare(self, q, k, v, options=Options(), algorithm="fused"):
        """q, k, v: [batch, heads, seqlen, dim], their strides decide the memory order. Allocates
        the output, in the order of q, and the workspace. Returns run(), which enqueues on torch's
        current stream and returns the output. Raises RuntimeError with the library's words."""
        out = _empty_output(q, v.shape[3])
        params = _params(q, k, v, out, options)
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
        inputs = (q, k, v, workspace, *options.tensors())

        def run(keep_alive=inputs):
            execution.stream = torch.cuda.current_stream().cuda_stream
            self._check(self._lib.attnd_attention(*arguments))
            return out

        return run
