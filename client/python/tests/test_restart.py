"""A client whose server is restarted with another message limit."""

import contextlib

import grpc
import numpy as np
import pytest

import attnd


def problem(seqlen_q, seqlen_k=None, dim_v=64):
    rng = np.random.default_rng(1)
    make = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    seqlen_k = seqlen_k or seqlen_q
    return make(1, seqlen_q, 1, 64), make(1, seqlen_k, 1, 64), make(1, seqlen_k, 1, dim_v)


@contextlib.contextmanager
def client_of_a_restarted_server(start_server, *qkv):
    """A client that knows a limit of 8 MiB and computed `qkv` under it; the server that is there now has one of 64 KiB."""
    with contextlib.ExitStack() as stack:
        with start_server("8MiB") as target:
            client = stack.enter_context(attnd.Client(target))
            before = client.attend(*qkv).out
        with start_server("64KiB"):
            yield client, before
            stack.close()


@pytest.mark.parametrize("qkv", [
    pytest.param(problem(250), id="request-that-the-server-refuses"),  # 188 KiB
    pytest.param(problem(400), id="request-that-grpc-refuses"),  # 300 KiB
    pytest.param(problem(100, seqlen_k=1, dim_v=256), id="result-that-the-server-refuses"),
    pytest.param(problem(40_000, seqlen_k=1), id="chunks-that-the-server-refuses"),  # of 10 MiB
])
def test_what_no_longer_fits_one_message_is_sent_in_smaller_ones(start_server, qkv):
    with client_of_a_restarted_server(start_server, *qkv) as (client, before):
        np.testing.assert_array_equal(client.attend(*qkv).out, before)


def test_what_the_server_refuses_for_another_reason_stays_refused(start_server):
    qkv = problem(250)
    with client_of_a_restarted_server(start_server, *qkv) as (client, _):
        with pytest.raises(attnd.AttndError, match="softcap") as caught:
            client.attend(*qkv, softcap=-1.0)
        assert caught.value.code == grpc.StatusCode.INVALID_ARGUMENT


def parts_of(rows):
    """One part to merge."""
    return [np.ones((rows, 64), np.float32)], [np.ones(rows, np.float32)]


@pytest.mark.parametrize("rows", [
    pytest.param(700, id="that-the-server-refuses"),  # 178 KiB
    pytest.param(1_107, id="that-grpc-refuses"),  # 281 KiB
])
def test_a_merge_beyond_a_smaller_limit_is_refused_in_the_words_of_the_limit(start_server, rows):
    with client_of_a_restarted_server(start_server, *problem(250)) as (client, _):
        for _ in range(2):
            with pytest.raises(attnd.AttndError) as caught:
                client.merge(*parts_of(rows))
            assert caught.value.code == grpc.StatusCode.INVALID_ARGUMENT
            assert caught.value.message == (f"outs and lses: {rows * 65 * 4} bytes, one message of at most 65536 accepted; "
                                            "merge fewer parts or rows at a time")


def test_a_larger_limit_lets_a_larger_merge_through(start_server):
    with contextlib.ExitStack() as stack:
        with start_server("64KiB") as target:
            client = stack.enter_context(attnd.Client(target))
            with pytest.raises(attnd.AttndError, match="one message of at most 65536 accepted"):
                client.merge(*parts_of(1_000))
        with start_server("8MiB"):
            np.testing.assert_array_equal(client.merge(*parts_of(1_000)).out, parts_of(1_000)[0][0])
            stack.close()


def test_server_info_takes_over_the_limit(start_server):
    qkv = problem(250)
    with client_of_a_restarted_server(start_server, *qkv) as (client, before):
        assert client.server_info().max_message_bytes == 64 << 10
        np.testing.assert_array_equal(client.attend(*qkv).out, before)
