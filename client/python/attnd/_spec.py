"""Keyword arguments of Client.attend to an AttentionSpec, and the shapes that follow from it."""

from __future__ import annotations

import math
import operator
from typing import Any, Sequence

import numpy as np

from attnd._tensors import to_numpy, wire_dtype
from attnd.v1 import attention_pb2 as pb

_LAYOUTS = {"bshd": pb.TENSOR_LAYOUT_BSHD, "bhsd": pb.TENSOR_LAYOUT_BHSD}
_ALGORITHMS = {
    None: pb.ALGORITHM_UNSPECIFIED,
    "naive": pb.ALGORITHM_NAIVE,
    "two_pass": pb.ALGORITHM_TWO_PASS,
    "online": pb.ALGORITHM_ONLINE,
    "fused": pb.ALGORITHM_FUSED,
    "reference": pb.ALGORITHM_REFERENCE,
}


def _choose(table: dict, value: Any, name: str) -> int:
    if value not in table:
        raise ValueError(f"{name}: {value!r}; accepted: {', '.join(repr(key) for key in table)}")
    return table[value]


def set_sizes(spec: pb.AttentionSpec, q: np.ndarray, k: np.ndarray, v: np.ndarray, layout: str) -> None:
    """Reads sizes off the arrays: 4-D in `layout`, or 3-D [total, heads, head_dim] when packed."""
    packed = len(spec.cu_seqlens_q) > 0
    expected = 3 if packed else 4
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.ndim != expected:
            why = "with cu_seqlens, [total, heads, head_dim]" if packed else "[batch, seqlen, heads, head_dim] in `layout`"
            raise ValueError(f"{name}: {array.ndim} dimensions, shape {array.shape}; accepted: {expected}, {why}")
    # The server sees bytes without shapes: a k of half the width and twice the length would pass there.
    if k.shape[-1] != q.shape[-1] or v.shape[:-1] != k.shape[:-1] or (not packed and k.shape[0] != q.shape[0]):
        batch = "" if packed else " and batch"
        raise ValueError(f"q {q.shape}, k {k.shape}, v {v.shape}; accepted: q and k of one head_dim{batch}, "
                         "k and v of one shape but for head_dim")
    if packed:
        spec.batch_size = len(spec.cu_seqlens_q) - 1
        heads, kv_heads = q.shape[1], k.shape[1]
    else:
        seq, head = (1, 2) if layout == "bshd" else (2, 1)
        spec.batch_size, spec.seqlen_q, spec.seqlen_k = q.shape[0], q.shape[seq], k.shape[seq]
        heads, kv_heads = q.shape[head], k.shape[head]
    spec.num_heads, spec.num_kv_heads = heads, kv_heads
    spec.head_dim, spec.head_dim_v = q.shape[-1], v.shape[-1]


def score_array(array: Any, spec_shape: pb.ScoreShape, name: str) -> np.ndarray:
    """A mask or bias, [batch, heads, rows, cols] with broadcast dimensions of 1; missing leading ones are added."""
    array = to_numpy(array)
    if not 2 <= array.ndim <= 4:
        raise ValueError(f"{name}: {array.ndim} dimensions; accepted: [rows, cols] up to [batch, heads, rows, cols]")
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    spec_shape.batch, spec_shape.heads, spec_shape.rows, spec_shape.cols = array.shape
    return array


def _mask_array(mask: Any, spec_shape: pb.ScoreShape) -> np.ndarray:
    array = score_array(mask, spec_shape, "mask")
    if array.dtype.kind == "b":
        return array
    # 0 and -inf to be added to scores would, as truth values, mean the opposite.
    if array.dtype.kind not in "iu" or np.any((array != 0) & (array != 1)):
        raise ValueError(f"mask: numbers of {array.dtype}; accepted: bool, or integers that are 0 or 1, true where a row may "
                         "attend; what is to be added to the scores is `bias`")
    return array.astype(np.bool_)


def _integers(value: Any, name: str) -> list[int]:
    array = to_numpy(value)
    if array.ndim != 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        raise ValueError(f"{name}: dtype {array.dtype}, {array.ndim} dimensions; accepted: integers in one dimension")
    return array.tolist()


def _integer(value: Any, name: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(f"{name}: {value!r}; accepted: an integer") from None


def make_request(q: Any, k: Any, v: Any, *, layout: str, algorithm: str | None, mask: Any, bias: Any, out_dtype: Any,
                 cu_seqlens_q: Sequence[int] | None, cu_seqlens_k: Sequence[int] | None, **options: Any) -> pb.AttendRequest:
    """The request message. `options` are AttentionSpec fields by name; None leaves the server's default."""
    q, k, v = to_numpy(q), to_numpy(k), to_numpy(v)
    request = pb.AttendRequest()
    spec = request.spec
    spec.cu_seqlens_q.extend(() if cu_seqlens_q is None else _integers(cu_seqlens_q, "cu_seqlens_q"))
    spec.cu_seqlens_k.extend(() if cu_seqlens_k is None else _integers(cu_seqlens_k, "cu_seqlens_k"))
    spec.layout = _choose(_LAYOUTS, layout, "layout")
    spec.algorithm = _choose(_ALGORITHMS, algorithm, "algorithm")
    set_sizes(spec, q, k, v, layout)
    spec.dtype = wire_dtype(q.dtype, "q")
    for name, array in (("k", k), ("v", v)):
        if array.dtype != q.dtype:
            raise ValueError(f"{name}: dtype {array.dtype}, q has {q.dtype}; all three must agree")
    if out_dtype is not None:
        spec.out_dtype = wire_dtype(out_dtype, "out_dtype")
    for name, value in options.items():
        if value is None:
            continue
        if name in ("lengths_q", "lengths_k"):
            getattr(spec, name).extend(_integers(value, name))
        elif name in ("window_left", "window_right"):
            setattr(spec, name, _integer(value, name))
        elif name in ("alibi_slopes", "sinks"):
            getattr(spec, name).extend(np.asarray(to_numpy(value)).reshape(-1).tolist())
        else:
            setattr(spec, name, value)
    request.q, request.k, request.v = q.tobytes(), k.tobytes(), v.tobytes()
    if mask is not None:
        request.mask = _mask_array(mask, spec.mask_shape).tobytes()
    if bias is not None:
        bias = score_array(bias, spec.bias_shape, "bias")
        spec.bias_dtype = wire_dtype(bias.dtype, "bias")
        request.bias = bias.tobytes()
    return request


def out_shape(spec: pb.AttentionSpec, q_shape: tuple[int, ...]) -> tuple[int, ...]:
    return q_shape[:-1] + (spec.head_dim_v,)


def lse_shape(spec: pb.AttentionSpec, q_shape: tuple[int, ...]) -> tuple[int, ...]:
    if spec.cu_seqlens_q:
        return (spec.num_heads, q_shape[0])
    return (spec.batch_size, spec.num_heads, spec.seqlen_q)


def probs_shape(spec: pb.AttentionSpec) -> tuple[int, ...]:
    return (spec.batch_size, spec.num_heads, _longest(spec.cu_seqlens_q, spec.seqlen_q),
            _longest(spec.cu_seqlens_k, spec.seqlen_k))


def result_bytes(spec: pb.AttentionSpec) -> int:
    """Bytes of out and of what else is asked for, in one message or many."""
    total_q = spec.cu_seqlens_q[-1] if spec.cu_seqlens_q else spec.batch_size * spec.seqlen_q
    rows = total_q * spec.num_heads
    float32_out = spec.return_partial or pb.DATA_TYPE_FLOAT32 in (spec.dtype, spec.out_dtype)
    out = rows * spec.head_dim_v * (4 if float32_out else 2)
    lse = 4 * rows if spec.return_lse or spec.return_partial else 0
    probs = 4 * math.prod(probs_shape(spec)) if spec.return_probs else 0
    return out + lse + probs


def _longest(cu_seqlens: Sequence[int], seqlen: int) -> int:
    return max((b - a for a, b in zip(cu_seqlens, cu_seqlens[1:])), default=0) if cu_seqlens else seqlen
