"""Events for webhook sensors from programs that sign them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Iterator
from datetime import UTC
from typing import Any

import httpx
import pytest

from arco.api.webhooks import FAILED_S, KEPT_S, WebhookSecrets, is_allowed, signing_key
from arco.clock import SystemClock
from arco.errors import Denied, Unavailable
from arco.security.permissions import Role
from arco.worker.secrets import SecretRegistry
from servo.contract.manifest import SecretRef
from tests.kit.api import ApiWorld
from tests.kit.freshness import AgingTown
from tests.kit.stores import ManualClock

PROJECT = """
from servo import *

@asset(namespace='sales')
def total() -> None: ...

@webhook_sensor('hook', selection=[total], secret='env:WEBHOOK_TEST')
def hook(ctx: SensorContext) -> SensorResult:
    return SensorResult(skip_reason='nothing')

plain = webhook_sensor('plain', selection=[total], secret='env:WEBHOOK_TEST')
open = webhook_sensor('open', selection=[total])
greedy = webhook_sensor('greedy', selection=[total], secret='env:HOME')
"""
SECRET = "correct horse battery staple"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiWorld]:
    monkeypatch.setenv("WEBHOOK_TEST", SECRET)
    world = ApiWorld(AgingTown(PROJECT).fresh())
    yield world
    world.close()


def _send(
    world: ApiWorld,
    body: bytes = b'{"n": 1}',
    *,
    sensor: str = "main/hook",
    id: str = "one",
    age_s: int = 0,
    secret: str = SECRET,
    signed: bytes | None = None,
    **headers: str,
) -> httpx.Response:
    now = int(world.workspace.clock.now().replace(tzinfo=UTC).timestamp()) - age_s
    text = f"{id}.{now}.".encode() + (body if signed is None else signed)
    digest = hmac.digest(signing_key(secret), text, hashlib.sha256)
    sent = {
        "webhook-id": id,
        "webhook-timestamp": str(now),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    path = f"/sensors/{sensor}/events"
    return world.without_token().send("POST", path, content=body, headers=sent)


def test_a_signed_event_is_a_message_of_the_sensor(world: ApiWorld) -> None:
    answer = _send(world)
    assert (answer.status_code, answer.json()) == (
        202,
        {"message_id": "one", "state": "PENDING", "is_repeated": False},
    )
    (message,) = world.owner.get("/sensors/main/hook")["messages"]
    assert message["payload"] == '{"n": 1}'
    assert _send(world, sensor="main/plain").json()["state"] == "DONE"
    (requested,) = world.owner.get("/requests")["items"]
    assert requested["request_key"] == "sensor:main/plain:one"
    record = world.owner.get("/audit", page_size=2)["items"][1]
    assert (record["actor"], record["resource_name"]) == ("service:webhook:main/hook", "main/hook")


def test_an_id_counts_once_whatever_comes_with_it(world: ApiWorld) -> None:
    _send(world)
    again = _send(world, b"another body")
    assert (again.status_code, again.json()["is_repeated"]) == (202, True)
    assert len(world.owner.get("/sensors/main/hook")["messages"]) == 1


def _answer(response: httpx.Response) -> tuple[int, Any]:
    body = response.json()
    body.pop("request_id")
    return response.status_code, body


def test_what_is_not_signed_is_answered_as_what_is_not_there(world: ApiWorld) -> None:
    absent = _answer(_send(world, sensor="main/nothing"))
    assert absent[0] == 404
    answers = [
        _send(world, secret="wrong"),
        _send(world, signed=b"another body"),
        _send(world, age_s=301),
        _send(world, age_s=-301),
        _send(world, sensor="main/open"),  # it has no secret
        _send(world, sensor="main/greedy", secret=os.environ["HOME"]),  # not allowed
        _send(world, webhook_signature="v1,"),
        _send(world, webhook_signature="v1,AAAA v1,BBBB"),
        _send(world, webhook_id="two"),  # the id is signed, too
    ]
    assert [_answer(each) for each in answers] == [absent] * len(answers)
    assert world.owner.get("/sensors/main/hook")["messages"] == []


def test_one_of_several_signatures_is_enough(world: ApiWorld) -> None:
    good = _send(world).request.headers["webhook-signature"]
    assert _send(world, webhook_signature=f"v1a,AAAA v1,AAAA {good}").status_code == 202


def test_an_event_without_its_headers_is_refused(world: ApiWorld) -> None:
    for headers in ({}, {"webhook-id": "one"}, {"webhook-id": "o", "webhook-timestamp": "x"}):
        path = "/sensors/main/hook/events"
        answer = world.without_token().send("POST", path, content=b"x", headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "unsigned_event")


def test_bodies_are_bounded_text(world: ApiWorld) -> None:
    assert _send(world, b"\xff\xfe").json()["code"] == "invalid_text"
    assert _send(world, b"x" * (256 * 1024 + 1)).status_code == 413


def test_many_wrong_signatures_close_the_door(world: ApiWorld) -> None:
    limit = world.settings.failed_logins_per_minute
    statuses = {_send(world, secret="wrong").status_code for _ in range(limit)}
    assert statuses == {404}
    assert _send(world).status_code == 429


def test_a_secret_of_the_specification_is_base64() -> None:
    assert signing_key("whsec_" + base64.b64encode(b"key").decode()) == b"key"
    assert signing_key("whsec_!") == b"whsec_!"


def test_a_secret_is_read_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEBHOOK_TEST", "first")
    ref = SecretRef(provider="env", path="WEBHOOK_TEST")
    assert WebhookSecrets(["env:WEBHOOK_*"], SystemClock()).key(ref) == b"first"
    assert WebhookSecrets(["env:OTHER_*"], SystemClock()).key(ref) is None
    missing = SecretRef(provider="env", path="WEBHOOK_MISSING")
    assert WebhookSecrets(["env:*"], SystemClock()).key(missing) is None


def test_a_key_counts_while_its_manager_is_down() -> None:
    class Manager:
        answer: str | Exception = "first"
        asked = 0

        def resolve(self, ref: SecretRef) -> str:
            self.asked += 1
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    manager, clock = Manager(), ManualClock()
    registry = SecretRegistry({"manager": manager})
    secrets = WebhookSecrets(["manager:hooks/*"], clock, registry)
    ref = SecretRef.parse("manager:hooks/till")
    other = SecretRef.parse("manager:hooks/till?version=2")
    assert secrets.key(ref) == secrets.key(ref) == b"first" and manager.asked == 1
    manager.answer = "second"
    assert secrets.key(other) == b"second", "each version has a key of its own"
    manager.answer = Unavailable("down")
    clock.sleep(KEPT_S)
    assert secrets.key(ref) == secrets.key(ref) == b"first" and manager.asked == 3
    manager.answer = Denied("no more")
    clock.sleep(FAILED_S)
    assert secrets.key(ref) is None and secrets.key(ref) is None and manager.asked == 4
    assert secrets.key(SecretRef.parse("manager:other/till")) is None and manager.asked == 4


def test_keys_push_too(world: ApiWorld) -> None:
    operator = world.client(Role.OPERATOR, "sales")
    answer = operator.post("/sensors/main/open/messages", {"id": "one", "payload": "x"})
    assert answer.status_code == 202


@pytest.mark.parametrize(
    ("name", "pattern", "expected"),
    [
        ("env:WEBHOOK_SHOP", "env:WEBHOOK_*", True),
        ("env:HOME", "env:WEBHOOK_*", False),
        ("vault:secret/hooks/shop", "vault:secret/hooks/*", True),
        ("vault:secret/hooks/shop/admin", "vault:secret/hooks/*", False),
        ("vault:secret/hooks", "vault:secret/hooks/*", False),
        ("vault:secret/other/shop", "vault:*/shop", False),
        ("vault:secret/hooks/shop/admin", "vault:secret/hooks/**", True),
        ("vault:secret/hooks", "vault:secret/hooks/**", False),
        ("vault:secret/other", "vault:secret/hooks/**", False),
    ],
)
def test_a_star_in_what_is_allowed_stays_within_a_part_of_the_path(
    name: str, pattern: str, expected: bool
) -> None:
    assert is_allowed(name, pattern) is expected
