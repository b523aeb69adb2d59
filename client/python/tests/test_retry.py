"""Which failed calls are made again, against a service that refuses them."""

import concurrent.futures
import time

import grpc
import numpy as np
import pytest

import attnd
from attnd import _retry
from attnd.v1 import attention_pb2_grpc as pb_grpc
from fake_service import MAX_MESSAGE_BYTES, FakeService, Refusal

UNAVAILABLE, RESOURCE_EXHAUSTED = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.fixture
def service():
    return FakeService()


@pytest.fixture
def client(service, monkeypatch):
    monkeypatch.setattr(_retry, "_INITIAL_BACKOFF_SECONDS", 0.001)
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=2))
    pb_grpc.add_AttentionServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with attnd.Client(f"127.0.0.1:{port}") as client:
        yield client
    server.stop(grace=None).wait()


def attend(client, seqlen, **options):
    q = np.ones((1, seqlen, 1, 64), np.float32)
    np.testing.assert_array_equal(client.attend(q, q, q, **options).out, q)


def attend_in_one_message(client, **options):
    attend(client, 8, **options)


def attend_by_stream(client, **options):
    attend(client, MAX_MESSAGE_BYTES // (64 * 4), **options)


def merge(client, rows=3, **options):
    client.merge([np.ones((rows, 8), np.float32)], [np.ones(rows, np.float32)], **options)


every_call = pytest.mark.parametrize("call", [attend_in_one_message, attend_by_stream, merge])


@every_call
def test_unavailable_is_repeated_until_the_fifth_attempt(client, service, call):
    service.refusals.extend([Refusal(UNAVAILABLE)] * 4)
    call(client)
    assert service.calls == 5
    service.refusals.extend([Refusal(UNAVAILABLE)] * 5)
    with pytest.raises(attnd.AttndError) as caught:
        call(client)
    assert (caught.value.code, caught.value.message, service.calls) == (UNAVAILABLE, "refused", 10)


@every_call
def test_what_the_server_cancels_is_unavailable_and_repeated(client, service, call):
    service.refusals.extend([Refusal(grpc.StatusCode.CANCELLED)] * 4)
    call(client)
    assert service.calls == 5
    service.refusals.extend([Refusal(grpc.StatusCode.CANCELLED)] * 5)
    with pytest.raises(attnd.AttndError, match="UNAVAILABLE: the server ended the call .CANCELLED: refused.") as caught:
        call(client)
    assert (caught.value.code, service.calls) == (UNAVAILABLE, 10)


@every_call
def test_closing_a_client_cancels_its_calls(client, service, call):
    service.may_answer.clear()
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as executor:
        result = executor.submit(call, client)
        service.called.wait()
        client.close()
        with pytest.raises(attnd.AttndError) as caught:
            result.result()
    service.may_answer.set()
    assert (caught.value.code, service.calls) == (grpc.StatusCode.CANCELLED, 1)


@every_call
@pytest.mark.parametrize("code", [UNAVAILABLE, RESOURCE_EXHAUSTED])
def test_a_call_is_repeated_no_sooner_than_the_server_asks(client, service, call, code):
    service.refusals.append(Refusal(code, pushback_ms="30"))
    begin = time.monotonic()
    call(client)
    assert service.calls == 2 and time.monotonic() - begin >= 0.03


@every_call
@pytest.mark.parametrize("refusal", [Refusal(RESOURCE_EXHAUSTED), Refusal(UNAVAILABLE, pushback_ms="-1"),
                                     Refusal(UNAVAILABLE, pushback_ms="soon"), Refusal(grpc.StatusCode.INVALID_ARGUMENT),
                                     Refusal(grpc.StatusCode.INTERNAL)], ids=str)
def test_other_failures_stand(client, service, call, refusal):
    service.refusals.append(refusal)
    with pytest.raises(attnd.AttndError) as caught:
        call(client)
    assert (caught.value.code, service.calls) == (refusal.code, 1)


def test_a_stream_is_not_repeated_once_the_answer_began(client, service):
    service.refusals.append(Refusal(UNAVAILABLE, after_result_header=True))
    with pytest.raises(attnd.AttndError) as caught:
        attend_by_stream(client)
    assert (caught.value.code, service.calls) == (UNAVAILABLE, 1)


@every_call
def test_a_wait_past_the_timeout_is_not_begun(client, service, call):
    service.refusals.append(Refusal(RESOURCE_EXHAUSTED, pushback_ms="3600000"))
    begin = time.monotonic()
    with pytest.raises(attnd.AttndError, match="RESOURCE_EXHAUSTED: refused"):
        call(client, timeout=600)
    assert service.calls == 1 and time.monotonic() - begin < 60


LARGE_LIMIT = 8 << 20
TOO_LARGE = Refusal(RESOURCE_EXHAUSTED)  # as gRPC refuses a message far beyond the server's limit


@pytest.fixture
def client_of_large_messages(client, service):
    service.max_message_bytes = LARGE_LIMIT
    client.server_info()
    service.info_calls = 0
    return client


def test_a_call_that_now_travels_differently_is_repeated(client_of_large_messages, service):
    service.max_message_bytes = MAX_MESSAGE_BYTES
    service.refusals.append(TOO_LARGE)
    attend_by_stream(client_of_large_messages)
    assert (service.calls, service.info_calls) == (2, 1)


def test_a_call_that_travels_the_same_way_is_not_repeated(client_of_large_messages, service):
    seqlen = LARGE_LIMIT // (64 * 4)  # streamed in chunks of 1 MiB under either limit
    service.max_message_bytes = LARGE_LIMIT // 2
    service.refusals.append(TOO_LARGE)
    with pytest.raises(attnd.AttndError, match="RESOURCE_EXHAUSTED: refused"):
        attend(client_of_large_messages, seqlen)
    assert (service.calls, service.info_calls) == (1, 1)


def test_a_changed_limit_does_not_renew_the_attempts(client_of_large_messages, service):
    service.max_message_bytes = MAX_MESSAGE_BYTES
    service.refusals.extend([Refusal(UNAVAILABLE)] * 4 + [TOO_LARGE])
    with pytest.raises(attnd.AttndError, match="RESOURCE_EXHAUSTED: refused"):
        attend_by_stream(client_of_large_messages)
    assert service.calls == 5
    service.refusals.extend([Refusal(UNAVAILABLE)] * 3 + [TOO_LARGE])
    client_of_large_messages._max_message_bytes = LARGE_LIMIT
    attend_by_stream(client_of_large_messages)
    assert service.calls == 10


@pytest.mark.parametrize("call", [attend_by_stream, lambda client: merge(client, rows=4096)], ids=["attend", "merge"])
@pytest.mark.parametrize("pushback_ms, attempts", [("0", 5), ("-1", 1)])
def test_an_overloaded_server_is_not_asked_for_its_limit(client_of_large_messages, service, call, pushback_ms, attempts):
    service.refusals.extend([Refusal(RESOURCE_EXHAUSTED, pushback_ms=pushback_ms)] * attempts)
    with pytest.raises(attnd.AttndError, match="RESOURCE_EXHAUSTED: refused"):
        call(client_of_large_messages)
    assert (service.calls, service.info_calls) == (attempts, 0)


def test_a_merge_refused_for_another_reason_keeps_the_servers_words(client_of_large_messages, service):
    service.refusals.append(Refusal(grpc.StatusCode.INVALID_ARGUMENT))
    with pytest.raises(attnd.AttndError, match="INVALID_ARGUMENT: refused"):
        merge(client_of_large_messages, rows=4096)
    assert (service.calls, service.info_calls) == (1, 1)
