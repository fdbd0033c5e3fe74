"""Receivers of notifications on loopback: real servers that fail, hang and come back."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from aiosmtpd.controller import Controller

from tests.kit.http_servers import QuietHandler, on_free_port, serving_http


class Posted(NamedTuple):
    path: str
    headers: dict[str, str]
    body: bytes


class WebReceiver:
    """Takes POSTs. `status` is what it answers; while `held` it answers nothing."""

    def __init__(self) -> None:
        self.posted: list[Posted] = []
        self.status = 200
        self.drips = False
        """Answers a character at a time, and never to the end."""
        self.open = threading.Event()
        self.open.set()
        self.arrived = threading.Event()
        receiver = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.arrived.set()
                if not receiver.open.wait(60):
                    return
                if receiver.drips:
                    receiver.drip(self)
                    return
                receiver.posted.append(Posted(self.path, dict(self.headers), body))
                self.send_response(receiver.status)
                self.send_header("location", "http://127.0.0.1:1/")
                self.send_header("content-length", "0")
                self.end_headers()

        self.server = on_free_port(Handler)

    def drip(self, handler: BaseHTTPRequestHandler) -> None:
        stop = threading.Event()
        try:
            for _ in range(600):
                handler.wfile.write(b"H")
                handler.wfile.flush()
                stop.wait(0.05)
        except OSError:
            pass

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=sesame"


@contextmanager
def web_receiver() -> Iterator[WebReceiver]:
    receiver = WebReceiver()
    with serving_http(receiver.server):
        try:
            yield receiver
        finally:
            receiver.open.set()


class MailReceiver:
    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []
        self.recipients: list[list[str]] = []
        self.answer = "250 OK"
        self.unknown: set[str] = set()
        """Recipients that it refuses."""
        self.port = 0

    async def handle_RCPT(
        self, server: Any, session: Any, envelope: Any, address: str, options: Any
    ) -> str:
        if address in self.unknown:
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.answer.startswith("250"):
            mail = message_from_bytes(envelope.content, policy=default)
            self.mails.append(mail)
            self.recipients.append(list(envelope.rcpt_tos))
        return self.answer


@contextmanager
def mail_receiver() -> Iterator[MailReceiver]:
    receiver = MailReceiver()
    with socket.create_server(("127.0.0.1", 0)) as free:
        receiver.port = free.getsockname()[1]
    controller = Controller(receiver, hostname="127.0.0.1", port=receiver.port)
    controller.start()
    try:
        yield receiver
    finally:
        controller.stop()
