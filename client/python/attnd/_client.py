"""The client: one channel, typed calls."""

from __future__ import annotations

import dataclasses
import time
from typing import Any, Iterator, Sequence

import grpc
import numpy as np

from attnd import _spec
from attnd._errors import AttndError
from attnd._retry import Attempts
from attnd._tensors import from_bytes, like_input, to_numpy, wire_dtype
from attnd.v1 import attention_pb2 as pb
from attnd.v1 import attention_pb2_grpc as pb_grpc

_CHUNK_BYTES = 1 << 20
# The smallest max_message_bytes that a server may be given: what fits it needs no question.
_LEAST_MESSAGE_LIMIT_BYTES = 64 << 10
# Room for what a message holds beside spec and tensors: field headers, and in a response AttendResult.
_MESSAGE_OVERHEAD_BYTES = 4 << 10
_DEFAULT_TIMEOUT_SECONDS = 60.0
_TENSORS = {pb.TENSOR_ID_OUT: "out", pb.TENSOR_ID_LSE: "lse", pb.TENSOR_ID_PROBS: "probs"}


@dataclasses.dataclass(frozen=True)
class Timings:
    """Where the server spent the time of a call, in seconds."""

    queue: float
    copy_in: float
    compute: float
    copy_out: float
    total: float


@dataclasses.dataclass(frozen=True)
class Diagnostics:
    """What the problem's numbers looked like; see attnd.v1.Diagnostics."""

    score_min: float
    score_max: float
    lse_min: float
    lse_max: float
    largest_weight: float
    rows_fully_masked: int
    nonfinite_q: int
    nonfinite_k: int
    nonfinite_v: int


@dataclasses.dataclass(frozen=True)
class AttendResult:
    """out: shape of q with head_dim_v innermost. lse: float32 [batch, num_heads, seqlen_q], packed [num_heads, total_q].
    probs: float32 [batch, num_heads, seqlen_q, seqlen_k]. What was not asked for is None."""

    out: Any
    lse: Any
    probs: Any
    diagnostics: Diagnostics | None
    kernel: str
    timings: Timings


@dataclasses.dataclass(frozen=True)
class MergeResult:
    """out and lse: shapes of a part's."""

    out: Any
    lse: Any
    timings: Timings


@dataclasses.dataclass(frozen=True)
class ServerInfo:
    version: str
    backend: str
    device_name: str
    compute_capability: int
    device_memory_bytes: int
    staging_memory_bytes: int
    max_message_bytes: int
    max_probs_bytes: int
    kernels: tuple[str, ...]


class Client:
    """Calls one attention server. Thread-safe; close it, or use it as a context manager.

    Calls compute and keep nothing, so that repeating one is safe. Each is made up to five times, streams too, and never past
    its timeout: on UNAVAILABLE before an answer began, after a random wait or the one that the server asks for, and on
    RESOURCE_EXHAUSTED if the server says when to come back (grpc-retry-pushback-ms). A call that the server cancelled is
    UNAVAILABLE, too. Where a refusal may be about the size of a message that the server's limit, when last asked for, allowed,
    the server is asked for it again, as it may have been restarted with a smaller one; the call is then repeated, as one of
    the five attempts, if it now travels differently. An overloaded server, which says when to come back, is not asked.
    """

    def __init__(self, target: str = "localhost:8001", *, credentials: grpc.ChannelCredentials | None = None):
        """target: host:port, unix:PATH, or any gRPC target. credentials: for TLS; plain text without."""
        options = [
            ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1),
            # gRPC's own repeats keep copies of messages and leave out large ones.
            ("grpc.enable_retries", 0),
        ]
        self._channel = (grpc.secure_channel(target, credentials, options) if credentials
                         else grpc.insecure_channel(target, options))
        self._stub = pb_grpc.AttentionServiceStub(self._channel)
        self._max_message_bytes: int | None = None  # of the server, as it last said

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the calls of other threads with CANCELLED."""
        self._channel.close()

    def attend(self, q: Any, k: Any, v: Any, *, causal: bool = False, softmax_scale: float | None = None,
               softcap: float | None = None, window_left: int | None = None, window_right: int | None = None,
               mask: Any = None, bias: Any = None, alibi_slopes: Any = None, sinks: Any = None, lengths_q: Any = None,
               lengths_k: Any = None, cu_seqlens_q: Sequence[int] | None = None,
               cu_seqlens_k: Sequence[int] | None = None, layout: str = "bshd", out_dtype: Any = None,
               return_lse: bool = False, return_partial: bool = False, return_probs: bool = False,
               return_diagnostics: bool = False, algorithm: str | None = None,
               timeout: float = _DEFAULT_TIMEOUT_SECONDS) -> AttendResult:
        """softmax(softmax_scale q k^T + masks) v.

        q: [batch, seqlen_q, num_heads, head_dim] ("bshd") or [batch, num_heads, seqlen_q, head_dim] ("bhsd"); with
            cu_seqlens packed as [total_q, num_heads, head_dim]. k, v the same with num_kv_heads. float32, float16 or
            bfloat16 (ml_dtypes); NumPy arrays or torch tensors; the result is of the same kind as q.
        mask: true where a row may attend, bool or integers of 0 and 1; bias: added to the scores, float32 or of q's type.
            Both [batch, heads, seqlen_q, seqlen_k], with 1 where broadcast; missing leading dimensions count as 1.
        Every other option as in attnd.v1.AttentionSpec. timeout: seconds for the whole call, repeats included.
        Raises AttndError with the server's text; ValueError where the arguments cannot be described at all.
        """
        request = _spec.make_request(
            q, k, v, layout=layout, algorithm=algorithm, mask=mask, bias=bias, out_dtype=out_dtype,
            cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k, causal=causal, softmax_scale=softmax_scale,
            softcap=softcap, window_left=window_left, window_right=window_right, alibi_slopes=alibi_slopes, sinks=sinks,
            lengths_q=lengths_q, lengths_k=lengths_k, return_lse=return_lse, return_partial=return_partial,
            return_probs=return_probs, return_diagnostics=return_diagnostics)
        result, tensors = self._attend(request, Attempts(time.monotonic() + timeout))
        return _make_result(request.spec, tuple(q.shape), result, tensors, q)

    def merge(self, outs: Sequence[Any], lses: Sequence[Any], *, out_dtype: Any = None,
              timeout: float = _DEFAULT_TIMEOUT_SECONDS) -> MergeResult:
        """Combines partial results over disjoint keys, in the order given.

        outs: float32 arrays [rows..., head_dim_v]; lses: float32 arrays [rows...]. An lse of attend() is in that order
        for a "bhsd" out; for a "bshd" out it is lse.transpose(0, 2, 1), for a packed one lse.T. Other shapes are refused,
        but where seqlen_q equals num_heads the two orders look alike. The parts must fit one message of the server:
        AttndError with INVALID_ARGUMENT if they do not.
        """
        out_arrays = [to_numpy(a) for a in outs]
        lse_arrays = [to_numpy(a) for a in lses]
        for name, arrays in (("outs", out_arrays), ("lses", lse_arrays)):
            if not arrays or any(a.dtype != np.float32 or a.shape != arrays[0].shape for a in arrays):
                raise ValueError(f"{name}: at least one array, all of float32 and of one shape; "
                                 f"got {[(str(a.dtype), a.shape) for a in arrays]}")
        if lse_arrays[0].shape != out_arrays[0].shape[:-1]:
            raise ValueError(f"lses: shape {lse_arrays[0].shape}, outs have {out_arrays[0].shape}; accepted: the shape of outs "
                             "without its last dimension (of attend()'s lse: transpose(0, 2, 1) with \"bshd\", .T if packed)")
        request = pb.MergeRequest(num_parts=len(out_arrays), rows=lse_arrays[0].size, head_dim_v=out_arrays[0].shape[-1],
                                  out=b"".join(a.tobytes() for a in out_arrays),
                                  lse=b"".join(a.tobytes() for a in lse_arrays))
        request.out_dtype = pb.DATA_TYPE_FLOAT32 if out_dtype is None else wire_dtype(out_dtype, "out_dtype")
        response = self._merge(request, Attempts(time.monotonic() + timeout))
        out = from_bytes(response.out, request.out_dtype, out_arrays[0].shape)
        lse = from_bytes(response.lse, pb.DATA_TYPE_FLOAT32, lse_arrays[0].shape)
        return MergeResult(like_input(out, outs[0]), like_input(lse, outs[0]), _make_timings(response.timings))

    def server_info(self, *, timeout: float = _DEFAULT_TIMEOUT_SECONDS) -> ServerInfo:
        """What the server is, what it can compute and its limits."""
        return self._server_info(Attempts(time.monotonic() + timeout))

    def _server_info(self, attempts: Attempts) -> ServerInfo:
        info = attempts.run(lambda left: self._stub.GetServerInfo(pb.GetServerInfoRequest(), timeout=left))
        self._max_message_bytes = info.max_message_bytes
        return ServerInfo(info.version, info.backend, info.device_name, info.compute_capability, info.device_memory_bytes,
                          info.staging_memory_bytes, info.max_message_bytes, info.max_probs_bytes,
                          tuple(kernel.name for kernel in info.kernels))

    def _attend(self, request: pb.AttendRequest, attempts: Attempts) -> tuple[pb.AttendResult, dict[str, Any]]:
        size = _largest_message_bytes(request)
        if size <= _LEAST_MESSAGE_LIMIT_BYTES:
            return self._attend_by(None, request, attempts)
        chunk_bytes = _chunk_bytes(size, self._limit(attempts.deadline))
        try:
            return self._attend_by(chunk_bytes, request, attempts)
        except AttndError:
            if not self._asked_for_limit_after(attempts, chunk_bytes or size):
                raise
            chunk_bytes_now = _chunk_bytes(size, self._max_message_bytes)
            if chunk_bytes_now == chunk_bytes or not attempts.any_left:
                raise
        return self._attend_by(chunk_bytes_now, request, attempts)

    def _attend_by(self, chunk_bytes: int | None, request: pb.AttendRequest,
                   attempts: Attempts) -> tuple[pb.AttendResult, dict[str, Any]]:
        """chunk_bytes: of a stream; None: in one message."""
        if chunk_bytes is not None:
            return attempts.run(lambda left: self._attend_stream(request, chunk_bytes, left))
        response = attempts.run(lambda left: self._stub.Attend(request, timeout=left))
        return response.result, {"out": response.out, "lse": response.lse, "probs": response.probs}

    def _merge(self, request: pb.MergeRequest, attempts: Attempts) -> pb.MergeResponse:
        size = len(request.out) + len(request.lse) + _MESSAGE_OVERHEAD_BYTES
        if size > _LEAST_MESSAGE_LIMIT_BYTES:
            known = self._max_message_bytes is not None
            if size > self._limit(attempts.deadline) and known:
                # The server may have been restarted with a larger limit.
                self.server_info(timeout=attempts.deadline - time.monotonic())
            self._check_merge_fits(size)
        try:
            return attempts.run(lambda left: self._stub.Merge(request, timeout=left))
        except AttndError:
            if self._asked_for_limit_after(attempts, size):
                self._check_merge_fits(size)
            raise

    def _check_merge_fits(self, size: int) -> None:
        if size > self._max_message_bytes:
            raise AttndError(grpc.StatusCode.INVALID_ARGUMENT,
                             f"outs and lses: {size - _MESSAGE_OVERHEAD_BYTES} bytes, one message of at most "
                             f"{self._max_message_bytes} accepted; merge fewer parts or rows at a time") from None

    def _limit(self, deadline: float) -> int:
        """max_message_bytes as the server last said, asked for where it has not been."""
        if self._max_message_bytes is None:
            self.server_info(timeout=deadline - time.monotonic())
        return self._max_message_bytes

    def _asked_for_limit_after(self, attempts: Attempts, size: int) -> bool:
        """After failed attempts whose largest message had `size` bytes: asks for the limit, once, if it may be the reason.

        False if the server was not asked or did not answer.
        """
        if size <= _LEAST_MESSAGE_LIMIT_BYTES or not attempts.may_be_refused_by_size:
            return False
        try:
            self._server_info(Attempts(attempts.deadline, budget=1))
        except AttndError:
            return False
        return True

    def _attend_stream(self, request: pb.AttendRequest, chunk_bytes: int,
                       timeout: float) -> tuple[pb.AttendResult, dict[str, bytearray]]:
        result = pb.AttendResult()
        tensors: dict[str, bytearray] = {}
        try:
            for message in self._stub.AttendStream(_stream_messages(request, chunk_bytes), timeout=timeout):
                if message.HasField("result"):
                    result = message.result
                    tensors = {"out": bytearray(result.out_bytes), "lse": bytearray(result.lse_bytes),
                               "probs": bytearray(result.probs_bytes)}
                else:
                    chunk = message.chunk
                    tensors[_TENSORS[chunk.tensor]][chunk.offset_bytes:chunk.offset_bytes + len(chunk.data)] = chunk.data
        except grpc.RpcError as error:
            if not tensors:
                raise
            raise AttndError.from_rpc_error(error) from None  # the answer had begun: no further attempt
        return result, tensors


def _chunk_bytes(size: int, limit: int) -> int | None:
    """Of the stream that a problem whose largest message would have `size` bytes goes through; None: it fits one message."""
    return None if size <= limit else min(_CHUNK_BYTES, limit - _MESSAGE_OVERHEAD_BYTES)


def _largest_message_bytes(request: pb.AttendRequest) -> int:
    """Of the two messages that a unary call takes."""
    tensors = (request.q, request.k, request.v, request.mask, request.bias)
    request_bytes = request.spec.ByteSize() + sum(len(tensor) for tensor in tensors)
    return max(request_bytes, _spec.result_bytes(request.spec)) + _MESSAGE_OVERHEAD_BYTES


def _stream_messages(request: pb.AttendRequest, chunk_bytes: int) -> Iterator[pb.AttendStreamRequest]:
    yield pb.AttendStreamRequest(header=request.spec)
    for tensor, data in ((pb.TENSOR_ID_Q, request.q), (pb.TENSOR_ID_K, request.k), (pb.TENSOR_ID_V, request.v),
                         (pb.TENSOR_ID_MASK, request.mask), (pb.TENSOR_ID_BIAS, request.bias)):
        view = memoryview(data)
        for offset in range(0, len(view), chunk_bytes):
            chunk = pb.TensorChunk(tensor=tensor, offset_bytes=offset, data=bytes(view[offset:offset + chunk_bytes]))
            yield pb.AttendStreamRequest(chunk=chunk)


def _make_result(spec: pb.AttentionSpec, q_shape: tuple[int, ...], result: pb.AttendResult, tensors: dict[str, Any],
                 model: Any) -> AttendResult:
    def float32(name: str, shape: tuple[int, ...], wanted: bool) -> Any:
        return like_input(from_bytes(tensors[name], pb.DATA_TYPE_FLOAT32, shape), model) if wanted else None

    diagnostics = None
    if result.HasField("diagnostics"):
        diagnostics = Diagnostics(**{f.name: getattr(result.diagnostics, f.name) for f in dataclasses.fields(Diagnostics)})
    return AttendResult(
        out=like_input(from_bytes(tensors["out"], result.out_dtype, _spec.out_shape(spec, q_shape)), model),
        lse=float32("lse", _spec.lse_shape(spec, q_shape), spec.return_lse or spec.return_partial),
        probs=float32("probs", _spec.probs_shape(spec), spec.return_probs),
        diagnostics=diagnostics,
        kernel=result.kernel,
        timings=_make_timings(result.timings))


def _make_timings(t: pb.Timings) -> Timings:
    return Timings(t.queue_seconds, t.copy_in_seconds, t.compute_seconds, t.copy_out_seconds, t.total_seconds)
