"""The one exception that calls raise."""

from __future__ import annotations

import grpc


# What grpc says, among other words, of the calls that Channel.close ended.
_CLOSED = "Channel closed!"


def code_of(error: grpc.RpcError) -> grpc.StatusCode:
    """The call's code; UNAVAILABLE where the server cancelled the call: it stops, or has given this client up."""
    return grpc.StatusCode.UNAVAILABLE if _cancelled_by_server(error) else error.code()


def _cancelled_by_server(error: grpc.RpcError) -> bool:
    return error.code() == grpc.StatusCode.CANCELLED and _CLOSED not in (error.details() or "")


class AttndError(Exception):
    """A call that the server refused or could not finish.

    code: the gRPC status code, e.g. grpc.StatusCode.INVALID_ARGUMENT.
    message: the server's text, which names the field, its value and what is accepted.
    """

    def __init__(self, code: grpc.StatusCode, message: str):
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message

    @classmethod
    def from_rpc_error(cls, error: grpc.RpcError) -> "AttndError":
        details = error.details() or ""
        if _cancelled_by_server(error):
            details = f"the server ended the call (CANCELLED: {details})"
        return cls(code_of(error), details)
