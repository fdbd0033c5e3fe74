"""Envelopes: what was signed for this workspace is opened, and nothing else is."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from arco.errors import Denied, Error, Invalid
from arco.storage import paths
from arco.transport.task_envelope import EnvelopeKey, EnvelopeSigner, open_unsigned, parse_keys
from servo.contract import canonical
from servo.contract.identity import attempt_id
from servo.contract.task import (
    CONTRACT,
    CodeRef,
    InputRef,
    ObjectRef,
    TaskRequest,
    needed_contract,
)
from tests.kit.clocks import SimClock

OLD = EnvelopeKey("old", b"o" * 32)
NEW = EnvelopeKey("new", b"n" * 32)
TTL = timedelta(minutes=10)


def make_request(**changes: Any) -> TaskRequest:
    fields: dict[str, Any] = {
        "tenant_id": "acme",
        "workspace_id": "prod",
        "run_id": "r1",
        "task_id": "t1",
        "plan_id": "p1",
        "attempt": 1,
        "attempt_id": attempt_id("r1", "t1", 1),
        "asset": "sales.orders",
        "asset_id": "01J00000000000000000000000",
        "partition": "date=d:2025-01-15",
        "code": CodeRef(artifact="a" * 64, module="sales", name="orders"),
        "output": "data/sales/orders/_",
        "config": {"limit": 7, "deep": True, "text": "é", "none": None},
    }
    return TaskRequest(**(fields | changes))


def opened(raw: bytes, *keys: EnvelopeKey, clock: SimClock | None = None) -> TaskRequest:
    signer = EnvelopeSigner(keys or (NEW,), clock or SimClock())
    return signer.open(raw, tenant="acme", workspace="prod")


def sealed(request: TaskRequest | None = None, *keys: EnvelopeKey) -> bytes:
    return EnvelopeSigner(keys or (NEW,), SimClock()).seal(request or make_request(), TTL)


def test_a_sealed_request_opens_as_it_was() -> None:
    assert opened(sealed()) == make_request()
    assert canonical.decode(sealed())["request"] == canonical.decode(
        canonical.encode(make_request())
    )


def test_keys_rotate_without_a_gap() -> None:
    assert opened(sealed(None, OLD), NEW, OLD) == make_request()
    with pytest.raises(Denied, match="not in use"):
        opened(sealed(None, OLD), NEW)


def test_the_first_key_signs() -> None:
    assert opened(sealed(None, NEW, OLD), NEW) == make_request()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (b'"attempt":1', b'"attempt":2'),
        (b"2025-01-15", b"2025-01-16"),
        (b'"limit":7', b'"limit":8'),
        (b'"module":"sales"', b'"module":"other"'),
    ],
)
def test_a_changed_request_is_denied(said: bytes, meant: bytes) -> None:
    raw = sealed()
    assert said in raw
    with pytest.raises(Denied, match="signature"):
        opened(raw.replace(said, meant))


def listed(path: str) -> InputRef:
    return InputRef(asset="sales.raw", count=999, listed_in=ObjectRef(path, "a" * 64, 10))


@pytest.mark.parametrize("field", ["inputs", "references"])
@pytest.mark.parametrize(
    "path",
    [
        paths.input_list("r2", "a" * 64),
        paths.input_list("r1", "b" * 64),
        f"inputs/r1/../r2/{'a' * 64}.parquet",
        "keys/tasks.json",
    ],
)
def test_a_list_of_inputs_that_is_not_of_the_run_is_denied(field: str, path: str) -> None:
    with pytest.raises(Denied, match="not of its run"):
        opened(sealed(make_request(contract=2, **{field: (listed(path),)})))


def test_a_request_with_a_list_is_of_a_contract_that_older_workers_refuse() -> None:
    ref = listed(paths.input_list("r1", "a" * 64))
    assert needed_contract([ref], {"n": 1}) == 2
    assert needed_contract([InputRef(asset="sales.raw")], {}) == 1
    with pytest.raises(Invalid, match="contract does not support"):
        opened(sealed(make_request(contract=1, inputs=(ref,))))


def test_a_request_with_a_list_or_an_exact_number_is_of_a_contract_that_older_workers_refuse() -> (
    None
):
    config: dict[str, Any] = {"codes": ["a"], "rate": {"$float": "0.5"}}
    assert needed_contract([], config) == 3
    request = make_request(contract=3, config=config)
    assert opened(sealed(request)) == request
    with pytest.raises(Invalid, match="contract does not support"):
        opened(sealed(make_request(contract=2, config=config)))


def test_the_signature_covers_the_list_of_inputs() -> None:
    request = make_request(contract=2, inputs=(listed(paths.input_list("r1", "a" * 64)),))
    raw = sealed(request)
    assert opened(raw) == request
    with pytest.raises(Denied, match="signature"):
        opened(raw.replace(b"a" * 64, b"b" * 64))


def test_a_later_expiry_is_a_forgery() -> None:
    envelope = msgspec.json.decode(sealed())
    envelope["auth"]["expires_at"] += 3600
    with pytest.raises(Denied, match="signature"):
        opened(canonical.encode(envelope))


def test_an_expired_envelope_is_denied_and_a_forged_one_never_gets_that_far() -> None:
    clock = SimClock()
    raw = sealed()
    clock.advance(TTL - timedelta(seconds=1))
    assert opened(raw, clock=clock) == make_request()
    clock.advance(timedelta(seconds=1))
    with pytest.raises(Denied, match="expired"):
        opened(raw, clock=clock)
    with pytest.raises(Denied, match="signature"):
        opened(raw.replace(b'"attempt":1', b'"attempt":2'), clock=clock)


@pytest.mark.parametrize(
    "raw",
    [b"", b"{}", b"null", b"\xff\xfe", b"[" * 5000, sealed()[:-1], b'{"request":{},"auth":1}'],
)
def test_garbage_is_invalid(raw: bytes) -> None:
    with pytest.raises(Invalid):
        opened(raw)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"tenant_id": "evil"}, Denied, "evil/prod"),
        ({"workspace_id": "dev"}, Denied, "acme/dev"),
        ({"attempt": 2}, Invalid, "attempt 2"),
        ({"attempt_id": "att_x"}, Invalid, "att_x"),
        ({"partition": "date=d:2025-1-5"}, Invalid, "date"),
        ({"partition": "b=i:1,a=i:2"}, Invalid, "canonical"),
        ({"contract": CONTRACT + 1}, Invalid, f"contract {CONTRACT + 1}"),
    ],
)
def test_a_request_whose_parts_disagree_is_refused_although_signed(
    changes: dict[str, Any], error: type[Error], message: str
) -> None:
    with pytest.raises(error, match=message):
        opened(sealed(make_request(**changes)))


def test_fields_of_a_newer_dispatcher_do_not_break_the_signature() -> None:
    class Newer(TaskRequest, frozen=True, kw_only=True, omit_defaults=True):
        later: str = ""

    fields = {name: getattr(make_request(), name) for name in TaskRequest.__struct_fields__}
    assert opened(sealed(Newer(**fields, later="x"))) == make_request()


def test_unsigned_envelopes_are_checked_for_all_but_the_signature() -> None:
    assert open_unsigned(sealed(), tenant="acme", workspace="prod") == make_request()
    with pytest.raises(Denied):
        open_unsigned(sealed(), tenant="acme", workspace="dev")


def test_keys_are_parsed_from_text() -> None:
    text = f"new:{NEW.secret.hex()}, old:{OLD.secret.hex()}"
    assert parse_keys(text) == (NEW, OLD)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nocolon",
        ":" + "ab" * 16,
        "k:zz" + "cd" * 16,
        "k:" + "ab" * 15,
        "k:" + "ab" * 16 + ",k:" + "ef" * 16,
    ],
)
def test_bad_keys_are_refused_without_being_shown(text: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_keys(text)
    assert not any(part in str(caught.value) for part in ("abab", "cdcd", "efef"))


def test_a_key_does_not_show_its_secret() -> None:
    assert "***" in repr(NEW) and "nnn" not in repr([NEW]) and "nnn" not in f"{NEW}"
