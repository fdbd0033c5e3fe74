from __future__ import annotations

import json
from datetime import datetime
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arco.catalog.events import EVENTS, AssetObserved, NamespaceCreated
from arco.errors import Corrupt, Invalid
from arco.log.envelope import (
    MAX_BATCH_BYTES,
    MAX_BATCH_EVENTS,
    MAX_EVENT_BYTES,
    Batch,
    Event,
    EventTypes,
    Payload,
    decode_batch,
    encode_batch,
    make_event,
)
from arco.storage.seal import seal

TIME = datetime(2026, 1, 1)


def event(n: int = 0, payload: Payload | None = None) -> Event:
    payload = payload or NamespaceCreated(namespace="sales")
    return make_event(
        payload, id=f"E{n:05d}", time=TIME, source="t", tenant="acme", workspace="prod"
    )


def raw_batch(**changes: Any) -> bytes:
    """A batch as another program may have written it."""
    data = json.loads(encode_batch(Batch(batch="B", events=[event()])))
    del data["sha256"]
    data["events"][0].update(changes)
    return json.dumps(data).encode()


def decode(raw: bytes) -> Batch:
    return decode_batch(raw, "acme", "prod", "B")


def sealed(batch: Batch) -> bytes:
    """Without the checks of `encode_batch`."""
    return seal(msgspec.json.encode(batch))


def test_batch_survives_the_journey() -> None:
    batch = Batch(batch="B", events=[event(1), event(2)])
    assert decode(encode_batch(batch)) == batch


def test_batch_without_events_is_refused() -> None:
    with pytest.raises(Invalid, match="at least one event"):
        encode_batch(Batch(batch="B", events=[]))


def test_batch_with_too_many_events_is_refused_on_both_sides() -> None:
    events = [event(n) for n in range(MAX_BATCH_EVENTS + 1)]
    with pytest.raises(Invalid, match=f"limit is {MAX_BATCH_EVENTS}"):
        encode_batch(Batch(batch="B", events=events))
    with pytest.raises(Corrupt, match=f"between 1 and {MAX_BATCH_EVENTS}"):
        decode(sealed(Batch(batch="B", events=events)))
    encode_batch(Batch(batch="B", events=events[:-1]))


def test_batch_with_too_many_bytes_is_refused() -> None:
    large = NamespaceCreated(namespace="sales", description="x" * (MAX_EVENT_BYTES - 200))
    events = [event(n, large) for n in range(MAX_BATCH_BYTES // MAX_EVENT_BYTES + 1)]
    with pytest.raises(Invalid, match="bytes; the limit is"):
        encode_batch(Batch(batch="B", events=events))
    encode_batch(Batch(batch="B", events=events[:-2]))


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"{not json}", "not a batch"),
        (b'{"events": []}', "not a batch"),
        (b'{"batch": "B", "events": []}', "0 events"),
        (raw_batch(tenant_id="other"), "belongs to other/prod"),
        (raw_batch(workspace_id="other"), "belongs to acme/other"),
        (b'{"batch": "C", "events": []}', "under another name"),
        (raw_batch(id=""), "no id"),
        (raw_batch(actor="x" * 1025), "actor"),
        (raw_batch(origin={"user_agent": "x" * 1025}), "origin.user_agent"),
        (raw_batch(type=""), "no type"),
        (raw_batch(data="x" * (MAX_EVENT_BYTES + 1)), "the limit is"),
        (raw_batch(version=0), "version"),
        (raw_batch(version=-1), "version"),
        (raw_batch(version=2**31), "version"),
        (raw_batch(time="0001-01-01T00:00:00+14:00"), "time"),
        (raw_batch(time="9999-12-31T23:59:59-14:00"), "time"),
        (raw_batch(data={"a": "~"}).replace(b"~", b"\xff"), "not a batch"),
        (raw_batch(source="~").replace(b"~", b"\xff"), "not a batch"),
        (raw_batch(data={"deep": None}).replace(b"null", b"[" * 9999 + b"]" * 9999), "not a batch"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_malformed_batch_is_told_apart_with_its_reason(raw: bytes, reason: str) -> None:
    with pytest.raises(Corrupt, match=reason):
        decode(seal(raw))


def test_batch_of_a_newer_format_is_refused() -> None:
    with pytest.raises(Corrupt, match="format 3"):
        decode(sealed(Batch(format=3, batch="B", events=[event()])))


def test_batch_without_a_checksum_is_refused() -> None:
    with pytest.raises(Corrupt, match="checksum"):
        decode(raw_batch())


@given(st.data())
def test_any_change_of_a_batch_is_noticed(data: st.DataObject) -> None:
    raw = encode_batch(Batch(batch="B", events=[event(1), event(2)]))
    at = data.draw(st.integers(0, len(raw) - 1))
    bit = 1 << data.draw(st.integers(0, 7))
    flipped = raw[:at] + bytes([raw[at] ^ bit]) + raw[at + 1 :]
    for damaged in (flipped, raw[:at], raw[at + 1 :], raw + b"\n"):
        with pytest.raises(Corrupt):
            decode(damaged)


def test_unknown_type_and_newer_version_decode_to_nothing() -> None:
    types = EventTypes(EVENTS)
    assert types.decode("catalog.unheard_of", 1, b"{}") is None
    assert types.decode("catalog.namespace_created", 2, b"{}") is None
    known = types.decode("catalog.namespace_created", 1, b'{"namespace": "sales"}')
    assert known == NamespaceCreated(namespace="sales")


def test_known_type_with_wrong_data_is_corrupt() -> None:
    types = EventTypes(EVENTS)
    with pytest.raises(Corrupt, match=r"catalog\.namespace_created version 1"):
        types.decode("catalog.namespace_created", 1, b'{"namespace": 7}')
    with pytest.raises(Corrupt, match=r"catalog\.namespace_created version 1"):
        types.decode("catalog.namespace_created", 1, b'{"namespace": "\xff"}')


def test_fields_that_a_payload_does_not_know_are_ignored() -> None:
    types = EventTypes(EVENTS)
    data = b'{"asset_id": "A", "row_count": 1, "size_bytes": 2, "colour": "blue"}'
    expected = AssetObserved(asset_id="A", row_count=1, size_bytes=2)
    assert types.decode("catalog.asset_observed", 1, data) == expected


def test_two_payloads_of_one_type_are_refused() -> None:
    class Twin(Payload, frozen=True, kw_only=True):
        TYPE: ClassVar[str] = "catalog.asset_observed"

    with pytest.raises(Invalid, match="asset_observed"):
        EventTypes([*EVENTS, Twin])


def test_every_event_type_has_a_name_of_its_own() -> None:
    assert all(payload.TYPE and payload.VERSION >= 1 for payload in EVENTS)
    assert len({payload.TYPE for payload in EVENTS}) == len(EVENTS)
