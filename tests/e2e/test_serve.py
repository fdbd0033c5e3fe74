"""`servo serve` as a process: who may come in, by which door, and how it ends."""

from __future__ import annotations

import http.client
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.e2e.conftest import Servo, populate
from tests.kit.issuer import Issuer, serving_issuer

ASSETS = "/api/v1/workspaces/default/main/assets"


class Server:
    def __init__(self, started: dict[str, Any]) -> None:
        parts = urlsplit(started["url"])
        self.host, self.port = str(parts.hostname), int(parts.port or 0)
        self.token: str = started["token"]
        self.link: str = urlsplit(started["link"]).path

    def get(self, path: str, **headers: str) -> tuple[int, Any, dict[str, str]]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            body = response.read()
            answer = json.loads(body) if body else None
            return response.status, answer, {k.lower(): v for k, v in response.getheaders()}
        finally:
            connection.close()

    def seen(self, token: str) -> list[str] | int:
        """The assets that the holder of a token sees; the status, if he is not let in."""
        status, answer, _ = self.get(ASSETS, Authorization=f"Bearer {token}")
        if status != 200:
            return status
        return sorted(f"{each['namespace']}.{each['name']}" for each in answer["items"])


@contextmanager
def serving(servo: Servo) -> Iterator[Server]:
    process = servo.start("serve", "--port", "0", "--json")
    try:
        yield Server(json.loads(process.stdout.readline()))
    finally:
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert json.loads(out) == {"state": "stopped"}
    lines = [json.loads(line) for line in err.splitlines()]
    assert all("route" in line for line in lines), "the log is more than the access log"
    assert "Bearer" not in err and "/local/" not in err.replace("/local/{code}", "")


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with serving_issuer() as running:
        yield running


def test_key_issuer_and_link_each_let_in_and_show_what_was_granted(
    servo: Servo, issuer: Issuer
) -> None:
    populate(servo.open())
    (servo.directory / "arco.toml").write_text(
        f'[auth]\nissuer = "{issuer.url}"\naudience = "arco"\n'
        '[[auth.groups]]\ngroup = "ops"\nrole = "viewer"\ntenant = "default"\n'
        'workspace = "main"\nnamespace = "ops"\n'
    )
    made = servo.json("auth", "keys", "create", "ci", "--role", "viewer", "-n", "sales")
    claims = {"iss": issuer.url, "aud": "arco", "sub": "ann", "exp": int(time.time()) + 600}
    with serving(servo) as server:
        assert server.seen(server.token) == ["ops.hosts", "sales.orders"]
        assert server.seen(made["key"]) == ["sales.orders"]
        assert server.seen(issuer.token({**claims, "groups": ["ops"]})) == ["ops.hosts"]
        assert server.seen(issuer.token({**claims, "aud": "another"})) == 401
        assert server.seen(made["key"][:-1]) == 401
        assert server.get(ASSETS)[0] == 401

        status, _, headers = server.get(server.link)
        assert status == 303
        cookie = headers["set-cookie"].partition(";")[0]
        assert server.get(ASSETS, Cookie=cookie)[0] == 200
        assert server.get(server.link)[0] == 404

        servo.json("auth", "keys", "revoke", made["key_id"])
        deadline = time.monotonic() + 60
        while server.seen(made["key"]) != 401:
            assert time.monotonic() < deadline, "a revoked key lets in"
            time.sleep(0.1)
