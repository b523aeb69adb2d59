"""Whether and when a failed call is made again: the rules of RetryOptions in client/cpp/attnd/client.h."""

from __future__ import annotations

import itertools
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


def run_with_retries(attempt: Callable[[float], _Result], deadline: float) -> _Result:
    """Calls `attempt` with the seconds left until it succeeds, must not be repeated, or could not be before `deadline`.

    deadline: of time.monotonic(). Raises AttndError for the last attempt's grpc.RpcError; lets other exceptions pass.
    """
    for attempts in itertools.count(1):
        try:
            return attempt(deadline - time.monotonic())
        except grpc.RpcError as error:
            delay = _delay_before_retry(error, attempts)
            if delay is None or time.monotonic() + delay >= deadline:
                raise AttndError.from_rpc_error(error) from None
        time.sleep(delay)


def _delay_before_retry(error: grpc.RpcError, attempts: int) -> float | None:
    """Seconds to wait before another attempt, after `attempts` have been made; None: let the failure stand."""
    code = code_of(error)
    unavailable = code == grpc.StatusCode.UNAVAILABLE
    if attempts >= _MAX_ATTEMPTS or not (unavailable or code == grpc.StatusCode.RESOURCE_EXHAUSTED):
        return None
    pushback = dict(error.trailing_metadata() or ()).get(_PUSHBACK)
    if pushback is not None:
        # Never sooner than asked, and up to a tenth later.
        return int(pushback) / 1000 * random.uniform(1.0, 1.1) if pushback.isdecimal() else None
    if unavailable:
        # A random wait up to a bound that doubles, so that callers refused together do not return together.
        return random.uniform(0, min(_MAX_BACKOFF_SECONDS, _INITIAL_BACKOFF_SECONDS * 2 ** (attempts - 1)))
    return None
