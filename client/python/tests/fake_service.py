"""An AttentionService whose out is a copy of q, and which refuses calls on demand."""

import collections
import dataclasses
import threading

import grpc

from attnd.v1 import attention_pb2 as pb
from attnd.v1 import attention_pb2_grpc as pb_grpc

MAX_MESSAGE_BYTES = 64 << 10


@dataclasses.dataclass(frozen=True)
class Refusal:
    code: grpc.StatusCode
    pushback_ms: str | None = None
    after_result_header: bool = False  # of a stream


class FakeService(pb_grpc.AttentionServiceServicer):
    """`refusals` are used up one a call; then calls succeed. `calls` counts all but GetServerInfo, each of which
    waits for `may_answer`; `info_calls` counts GetServerInfo, which tells `max_message_bytes`."""

    def __init__(self):
        self.refusals: collections.deque[Refusal] = collections.deque()
        self.calls = 0
        self.info_calls = 0
        self.max_message_bytes = MAX_MESSAGE_BYTES
        self.called = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    def GetServerInfo(self, request, context):
        self.info_calls += 1
        return pb.GetServerInfoResponse(max_message_bytes=self.max_message_bytes)

    def Attend(self, request, context):
        refusal = self._next_refusal()
        if refusal:
            self._refuse(refusal, context)
        return pb.AttendResponse(out=request.q, result=_result(request.spec, request.q))

    def AttendStream(self, requests, context):
        refusal = self._next_refusal()
        if refusal and not refusal.after_result_header:
            self._refuse(refusal, context)
        spec = next(requests).header
        q = b"".join(r.chunk.data for r in requests if r.chunk.tensor == pb.TENSOR_ID_Q)
        yield pb.AttendStreamResponse(result=_result(spec, q))
        if refusal:
            self._refuse(refusal, context)
        yield pb.AttendStreamResponse(chunk=pb.TensorChunk(tensor=pb.TENSOR_ID_OUT, data=q))

    def Merge(self, request, context):
        refusal = self._next_refusal()
        if refusal:
            self._refuse(refusal, context)
        return pb.MergeResponse(out=request.out, lse=request.lse)

    def _next_refusal(self) -> Refusal | None:
        self.calls += 1
        self.called.set()
        self.may_answer.wait()
        return self.refusals.popleft() if self.refusals else None

    @staticmethod
    def _refuse(refusal: Refusal, context) -> None:
        if refusal.pushback_ms is not None:
            context.set_trailing_metadata((("grpc-retry-pushback-ms", refusal.pushback_ms),))
        context.abort(refusal.code, "refused")


def _result(spec: pb.AttentionSpec, out: bytes) -> pb.AttendResult:
    return pb.AttendResult(out_dtype=spec.dtype, out_bytes=len(out))
