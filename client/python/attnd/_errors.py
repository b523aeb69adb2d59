"""The one exception that calls raise."""

from __future__ import annotations

import grpc


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
        return cls(error.code(), error.details() or "")
