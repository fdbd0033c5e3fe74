"""`arco.client.Client` against a server: pages, errors, files, events, and writes whose answer is
lost with the server."""

from __future__ import annotations

import json
import re
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from arco.client import Client
from arco.errors import Denied, Invalid, NotFound, NotYet, Refused, Unauthenticated, Unavailable
from arco.security.permissions import Role
from tests.e2e.conftest import Servo, populate
from tests.kit.forkserver import Forked


def _start(servo: Servo, port: int = 0) -> tuple[Forked, dict[str, Any]]:
    process = servo.start("serve", "--port", str(port), "--json")
    return process, json.loads(process.stdout.readline())


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    servo = Servo(tmp_path_factory.mktemp("served"))
    servo.store.mkdir()
    workspace = servo.open()
    populate(workspace)
    key = workspace.commands.security.create_key("owner", Role.OWNER)
    restricted = workspace.commands.security.create_key("sales", Role.VIEWER, namespaces=["sales"])
    process, started = _start(servo)
    yield {**started, "owner": str(key.text), "sales": str(restricted.text), "servo": servo}
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    servo.end()


@pytest.fixture
def client(served: dict[str, Any]) -> Iterator[Client]:
    with Client(served["url"], served["owner"]) as client:
        yield client


def test_lists_are_iterators_over_pages(client: Client) -> None:
    names = [each["name"] for each in client.list_assets(page_size=1)]
    assert names == ["hosts", "orders"]
    at = client.get_workspace()["generation"]
    client.create_asset({"asset": "ops.later"})
    assert len(list(client.list_assets(page_size=1, generation=at))) == 2
    assert len(list(client.list_assets(page_size=1))) == 3
    client.drop_asset("ops.later")


def test_errors_are_those_of_the_tree(client: Client, served: dict[str, Any]) -> None:
    with pytest.raises(NotFound, match=r"sales\.nothing"):
        client.get_asset("sales.nothing")
    with pytest.raises(Invalid):
        client.get_asset("no key")
    with pytest.raises(Refused) as refused:
        client.create_namespace({"namespace": "sales"})
    assert refused.value.code
    with pytest.raises(NotYet):
        client.get_workspace(generation=1_000_000)
    with (
        Client(served["url"], "arco_wrong", attempts=1) as stranger,
        pytest.raises(Unauthenticated),
    ):
        stranger.get_workspace()
    with Client(served["url"], served["sales"]) as viewer:
        assert [each["name"] for each in viewer.list_assets()] == ["orders"]
        with pytest.raises(Denied):
            viewer.create_namespace({"namespace": "mine"})
        with pytest.raises(NotFound):
            viewer.get_asset("ops.hosts")
        with pytest.raises(Denied):
            viewer.list_files()
    with Client("http://127.0.0.1:9", "t", attempts=2) as nobody, pytest.raises(Unavailable):
        nobody.get_workspace()
    with pytest.raises(Invalid, match="without encryption"):
        Client("http://example.com", "t")


def test_files_are_fetched_by_signed_urls(client: Client) -> None:
    (table,) = client.list_files(table=["catalog.assets"])["tables"]
    for file in table["files"]:
        assert client.file(file["url"]).content.startswith(b"PAR1")
        assert client.file(file["url"], {"Range": "bytes=-4"}).content == b"PAR1"
    assert client.query("SELECT count(*) FROM catalog.assets")["rows"] == [[2]]
    assert client.query_arrow("SELECT name FROM catalog.assets").num_rows == 2


def test_events_are_followed(client: Client) -> None:
    after = client.get_snapshot()["position"]
    client.create_namespace({"namespace": "fresh"})
    event = next(client.events(after=after))
    assert event["position"] == after + 1
    client.drop_namespace("fresh")


def _whole_request(client: socket.socket) -> bytes:
    request = b""
    while True:
        request += client.recv(65_536)
        head, end, body = request.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head.lower())
        if end and len(body) >= (int(length[1]) if length else 0):
            return request


class LostAnswer:
    """Stands before a server. It passes the first request on, and then the server is killed
    before its answer arrives; later requests go to another server."""

    def __init__(self, first: Forked, port: int) -> None:
        self._first, self.port = first, port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.other_port = 0
        self.lost: bytes = b""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            client, _ = self._listening.accept()
            request = _whole_request(client)
            port = self.port if not self.lost else self.other_port
            request = request.replace(
                self.address.removeprefix("http://").encode(), b"127.0.0.1:%d" % port
            ).replace(b"keep-alive", b"close")
            with socket.create_connection(("127.0.0.1", port)) as server:
                server.sendall(request)
                answer = b"".join(iter(lambda: server.recv(65_536), b""))
            if not self.lost:
                self.lost = answer
                self._first.kill()
                self._first.wait()
                self.restart()
            else:
                client.sendall(answer)
            client.close()

    def restart(self) -> None:
        raise NotImplementedError


def test_a_write_whose_answer_is_lost_has_effect_once(served: dict[str, Any]) -> None:
    servo: Servo = served["servo"]
    first, started = _start(servo)
    others: list[Forked] = []

    class Between(LostAnswer):
        def restart(self) -> None:
            process, again = _start(servo)
            others.append(process)
            self.other_port = int(again["url"].rpartition(":")[2])

    between = Between(first, int(started["url"].rpartition(":")[2]))
    with Client(between.address, served["owner"]) as client:
        answer = client.create_namespace({"namespace": "once"})
    for process in others:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    assert b"HTTP/1.1 201" in between.lost
    first_answer = json.loads(between.lost.partition(b"\r\n\r\n")[2])
    assert {**first_answer, "replayed": True} == {**answer}
    with Client(served["url"], served["owner"]) as client:
        assert "once" in [each["namespace"] for each in client.list_namespaces()]
