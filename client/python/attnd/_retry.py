"""Whether and when a failed call is made again: the rules of RetryOptions in client/cpp/attnd/client.h."""

from __future__ import annotations

import random
import time
from typing import Callable, TypeVar

import grpc

from attnd._errors import AttndError, code_of

_MAX_ATTEMPTS = 5  # the first one included
_INITIAL_BACKOFF_SECONDS = 0.1
_MAX_BACKOFF_SECONDS = 3.0
# attnd sends it wherever it sends google.rpc.RetryInfo. What is not a number of milliseconds forbids repeating (gRFC A6).
_PUSHBACK = "grpc-retry-pushback-ms"

_Result = TypeVar("_Result")


class Attempts:
    """The attempts of one call of this package: a budget for all of them, however they travel.

    deadline: of time.monotonic().
    may_be_refused_by_size: whether the last attempt's failure may be about the size of a message. attnd's own refusal is
    INVALID_ARGUMENT; gRPC's, of a message far beyond the limit, RESOURCE_EXHAUSTED without the delay that attnd gives where
    it is overloaded. Both have other meanings, too.
    """

    def __init__(self, deadline: float, budget: int = _MAX_ATTEMPTS):
        self.deadline = deadline
        self.may_be_refused_by_size = False
        self._left = budget
        self._made = 0

    @property
    def any_left(self) -> bool:
        return self._left > 0

    def run(self, attempt: Callable[[float], _Result]) -> _Result:
        """Calls `attempt` with the seconds left until it succeeds, must not be repeated, or could not be within the budget
        or before the deadline. May be called again while any are left.

        Raises AttndError for the last attempt's grpc.RpcError; lets other exceptions pass.
        """
        while True:
            self.may_be_refused_by_size = False
            self._left -= 1
            self._made += 1
            try:
                return attempt(self.deadline - time.monotonic())
            except grpc.RpcError as error:
                self.may_be_refused_by_size = _may_be_refused_by_size(error)
                delay = _delay_before_retry(error, self._made) if self.any_left else None
                if delay is None or time.monotonic() + delay >= self.deadline:
                    raise AttndError.from_rpc_error(error) from None
            time.sleep(delay)


def _pushback(error: grpc.RpcError) -> str | None:
    return dict(error.trailing_metadata() or ()).get(_PUSHBACK)


def _may_be_refused_by_size(error: grpc.RpcError) -> bool:
    return (code_of(error) in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED)
            and _pushback(error) is None)


def _delay_before_retry(error: grpc.RpcError, attempts: int) -> float | None:
    """Seconds to wait before another attempt, after `attempts` have been made; None: let the failure stand."""
    code = code_of(error)
    unavailable = code == grpc.StatusCode.UNAVAILABLE
    if not (unavailable or code == grpc.StatusCode.RESOURCE_EXHAUSTED):
        return None
    pushback = _pushback(error)
    if pushback is not None:
        # Never sooner than asked, and up to a tenth later.
        return int(pushback) / 1000 * random.uniform(1.0, 1.1) if pushback.isdecimal() else None
    if unavailable:
        # A random wait up to a bound that doubles, so that callers refused together do not return together.
        return random.uniform(0, min(_MAX_BACKOFF_SECONDS, _INITIAL_BACKOFF_SECONDS * 2 ** (attempts - 1)))
    return None
