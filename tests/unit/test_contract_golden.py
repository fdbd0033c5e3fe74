"""Every golden vector under tests/golden/identity holds, in both directions."""

from __future__ import annotations

import json
from datetime import date, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from servo.contract import canonical, identity, ulid
from servo.contract.keys import AssetId, AssetKey
from servo.contract.partition import PartitionKey, Scalar, path_segment
from servo.errors import Invalid

GOLDEN = Path(__file__).parents[1] / "golden" / "identity"


def load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{name}.json").read_bytes())
    return found


def scalar(kind: str, value: str | None) -> Scalar:
    match kind, value:
        case "null", None:
            return None
        case "string", str():
            return value
        case "integer", str():
            return int(value)
        case "boolean", ("true" | "false"):
            return value == "true"
        case "date", str():
            return date.fromisoformat(value)
        case "timestamp", str():
            return datetime.fromisoformat(value)
    raise AssertionError((kind, value))


def test_every_golden_file_explains_itself_and_is_ascii() -> None:
    files = sorted(GOLDEN.glob("*.json"))
    assert [f.stem for f in files] == [
        "asset_key",
        "canonical_json",
        "identity",
        "partition_key",
        "ulid",
    ]
    for file in files:
        # Escaped, so that no editor can normalise NFD away.
        assert file.read_bytes().isascii()
        assert json.loads(file.read_bytes())["readme"].endswith(".")


def test_ulid_vectors() -> None:
    golden = load("ulid")
    for v in golden["vectors"]:
        assert ulid.encode(int(v["value_hex"], 16)) == v["text"]
        assert f"{ulid.decode(v['text']):032x}" == v["value_hex"]
        assert ulid.timestamp_ms(v["text"]) == v["timestamp_ms"]
    for text in golden["refused"]:
        with pytest.raises(Invalid):
            ulid.decode(text)


def test_ulid_factory_vectors() -> None:
    for v in load("ulid")["factory"]:
        clock, randomness = iter(v["clock_ms"]), iter(v["random_hex"])
        make = ulid.UlidFactory(
            lambda clock=clock: next(clock),  # type: ignore[misc]
            lambda n, randomness=randomness: bytes.fromhex(next(randomness)),  # type: ignore[misc]
        )
        assert [make() for _ in v["clock_ms"]] == v["ids"], v["name"]


def test_canonical_json_vectors() -> None:
    golden = load("canonical_json")
    for v in golden["vectors"]:
        data = v["canonical"].encode()
        assert canonical.encode(v["value"]) == data, v["name"]
        assert canonical.decode(data) == v["value"], v["name"]
        assert canonical.fingerprint(v["value"]) == v["sha256"], v["name"]


def test_non_canonical_json_vectors_are_refused() -> None:
    golden = load("canonical_json")
    refused = [(v["text"].encode(), v["why"]) for v in golden["refused"]]
    refused += [(bytes.fromhex(v["hex"]), v["why"]) for v in golden["refused_hex"]]
    for data, why in refused:
        with pytest.raises(Invalid):
            pytest.fail(f"{data!r} ({why}) was read as {canonical.decode(data)!r}")


def test_asset_key_vectors() -> None:
    golden = load("asset_key")
    for v in golden["vectors"]:
        key = AssetKey(v["namespace"], v["name"])
        assert str(key) == v["text"]
        assert AssetKey.parse(v["text"]) == key
    keys = [AssetKey.parse(text) for text in golden["sorted"]]
    assert all(a < b for a, b in combinations(keys, 2))
    assert sorted(golden["sorted"]) == golden["sorted"]
    for text in golden["refused"]:
        with pytest.raises(Invalid):
            pytest.fail(f"{text!r} was read as {AssetKey.parse(text)!r}")


def test_partition_key_vectors() -> None:
    for v in load("partition_key")["vectors"]:
        key = PartitionKey({name: scalar(kind, value) for name, kind, value in v["dimensions"]})
        assert str(key) == v["text"]
        assert PartitionKey.parse(v["text"]) == key
        assert path_segment(key) == v["segment"]


def test_partition_key_order_vectors() -> None:
    keys = [PartitionKey.parse(text) for text in load("partition_key")["sorted"]]
    assert all(a < b and b > a for a, b in combinations(keys, 2))


def test_non_canonical_partition_key_vectors_are_refused() -> None:
    for v in load("partition_key")["refused"]:
        with pytest.raises(Invalid):
            pytest.fail(f"{v} was read as {PartitionKey.parse(v['text'])!r}")


def test_identity_vectors() -> None:
    golden = load("identity")
    for v in golden["task_id"]:
        asset, key = AssetId(v["asset_id"]), PartitionKey.parse(v["key"])
        assert identity.task_id(asset, key, v["code_version"]) == v["id"]
    for v in golden["transform_fingerprint"]:
        expected = v.pop("fingerprint")
        assert identity.transform_fingerprint(**v) == expected
    for v in golden["plan_fingerprint"]:
        assert canonical.fingerprint(v["spec"]) == v["fingerprint"]
    for v in golden["edge_id"]:
        expected = v.pop("id")
        assert identity.edge_id(**v) == expected
    for v in golden["version_label"]:
        assert identity.version_label(v["number"]) == v["label"]


def test_attempt_and_timer_vectors() -> None:
    golden = load("identity")
    for v in golden["attempt"]:
        names = (v["run"], v["task"], v["attempt"])
        assert identity.dispatch_key(*names) == v["key"]
        assert identity.attempt_id(*names) == v["attempt_id"]
        assert identity.dispatch_name(*names, redelivery=v["redelivery"]) == v["queue_name"]
    for v in golden["timer"]:
        timer = (v["kind"], v["run"], v["task"], v["attempt"], v["due_s"])
        assert identity.timer_key(*timer) == v["key"]


def test_no_two_golden_inputs_share_an_id() -> None:
    golden = load("identity")
    for name in ("task_id", "edge_id"):
        assert len({v["id"] for v in golden[name]}) == len(golden[name])
    assert len({v["queue_name"] for v in golden["attempt"]}) == len(golden["attempt"])
