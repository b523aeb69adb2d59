"""Starts the real server on free ports for the tests."""

import contextlib
import os
import pathlib
import subprocess
import time

import pytest

import attnd


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """host:port of a CPU server with small limits, so that the stream path is reached with small tensors."""
    with _running_server(tmp_path_factory, max_message_bytes="8MiB") as target:
        yield target


@pytest.fixture(scope="session")
def server_of_small_messages(tmp_path_factory):
    """host:port of a CPU server whose message limit is the least that the setting takes."""
    with _running_server(tmp_path_factory, max_message_bytes="64KiB") as target:
        yield target


@pytest.fixture
def start_server(tmp_path_factory):
    """start_server(max_message_bytes) serves while its `with` lasts; every one of a test serves at the same target."""
    socket = tmp_path_factory.mktemp("socket") / "attnd"

    @contextlib.contextmanager
    def start(max_message_bytes):
        with _running_server(tmp_path_factory, max_message_bytes, f"--unix-socket={socket}"):
            yield f"unix:{socket}"

    return start


@contextlib.contextmanager
def _running_server(tmp_path_factory, max_message_bytes: str, *settings: str):
    binary = os.environ.get("ATTND_SERVER")
    assert binary, "ATTND_SERVER must name the attnd binary; tools/test sets it"
    port_file = tmp_path_factory.mktemp("server") / "ports"
    process = subprocess.Popen([binary, "--backend=cpu", "--grpc-port=0", "--http-port=0", f"--port-file={port_file}",
                                f"--max-message-bytes={max_message_bytes}", "--drain-delay=0s", *settings])
    try:
        yield f"127.0.0.1:{_wait_for_port(process, port_file)}"
    finally:
        process.terminate()
        assert process.wait(timeout=30) == 0


def _wait_for_port(process: subprocess.Popen, port_file: pathlib.Path) -> str:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        assert process.poll() is None, "the server ended early"
        if port_file.exists():
            return dict(line.split("=", 1) for line in port_file.read_text().split())["grpc_port"]
        time.sleep(0.02)
    raise AssertionError("the server did not start within 30 s")


@pytest.fixture
def client(server):
    with attnd.Client(server) as client:
        yield client
