"""Servers of tests print nothing that another test would read."""

from __future__ import annotations

import socket
import struct
import threading

import pytest

from tests.kit.http_servers import QuietHandler, on_free_port, serving_http


def test_a_client_that_goes_away_is_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    gone, failed = threading.Event(), threading.Event()

    class Handler(QuietHandler):
        def do_GET(self) -> None:
            gone.wait(60)
            try:
                for _ in range(100):
                    self.wfile.write(bytes(1 << 16))
            except ConnectionError:
                failed.set()
                raise

    before = set(threading.enumerate())
    server = on_free_port(Handler)
    with serving_http(server):
        with socket.create_connection(("127.0.0.1", server.server_port)) as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            reset = struct.pack("ii", 1, 0)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        gone.set()
        assert failed.wait(60)
    for thread in set(threading.enumerate()) - before:
        thread.join(60)
    assert capsys.readouterr() == ("", "")


def test_a_mistake_of_a_handler_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    class Handler(QuietHandler):
        def do_GET(self) -> None:
            raise KeyError("mistake")

    server = on_free_port(Handler)
    address = ("127.0.0.1", server.server_port)
    with serving_http(server), socket.create_connection(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert client.recv(1) == b""  # closed without an answer
    assert "KeyError: 'mistake'" in capsys.readouterr().err
