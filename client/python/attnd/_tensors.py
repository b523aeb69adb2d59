"""Arrays to bytes on the wire and back. Everything is row-major and little-endian there."""

from __future__ import annotations

import sys
from typing import Any

import ml_dtypes
import numpy as np

from attnd.v1 import attention_pb2 as pb

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

_TO_WIRE = {
    np.dtype(np.float32): pb.DATA_TYPE_FLOAT32,
    np.dtype(np.float16): pb.DATA_TYPE_FLOAT16,
    BFLOAT16: pb.DATA_TYPE_BFLOAT16,
}
_FROM_WIRE = {wire: dtype for dtype, wire in _TO_WIRE.items()}


def is_torch(array: Any) -> bool:
    """Whether `array` is a torch tensor; never imports torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def to_numpy(array: Any) -> np.ndarray:
    """A contiguous NumPy array with the values of `array`, without a copy where there need not be one."""
    if is_torch(array):
        torch = sys.modules["torch"]
        array = array.detach().cpu().contiguous()
        # NumPy has no bfloat16 of its own: hand the bits over as integers.
        if array.dtype == torch.bfloat16:
            return array.view(torch.int16).numpy().view(BFLOAT16)
        return array.numpy()
    return np.ascontiguousarray(array)


def like_input(result: np.ndarray, model: Any) -> Any:
    """`result` as the kind of array that `model` is, on its device."""
    if not is_torch(model):
        return result
    torch = sys.modules["torch"]
    if result.dtype == BFLOAT16:
        return torch.from_numpy(result.view(np.int16)).view(torch.bfloat16).to(model.device)
    return torch.from_numpy(result).to(model.device)


def wire_dtype(dtype: Any, name: str) -> "pb.DataType":
    """The wire's name of a dtype. ValueError for one that the server does not take."""
    try:
        return _TO_WIRE[np.dtype(dtype)]
    except (KeyError, TypeError):
        raise ValueError(f"{name}: dtype {dtype}; accepted: float32, float16, bfloat16") from None


def from_bytes(data: bytes | bytearray, wire: "pb.DataType", shape: tuple[int, ...]) -> np.ndarray:
    """A writable array of the bytes of a result, which are copied unless they are writable already."""
    writable = data if isinstance(data, bytearray) else bytearray(data)
    return np.frombuffer(writable, dtype=_FROM_WIRE[wire]).reshape(shape)
