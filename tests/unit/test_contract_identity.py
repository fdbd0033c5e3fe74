from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from servo.contract import identity
from servo.contract.keys import AssetId
from servo.contract.partition import PartitionKey
from servo.errors import Invalid

A = AssetId("01ARZ3NDEKTSV4RRFFQ69G5FAV")
B = AssetId("01ARZ3NDEKTSV4RRFFQ69G5FAW")
HASH = "0" * 64


@pytest.mark.parametrize(
    "call",
    [
        lambda bad: identity.partition_id(bad, PartitionKey()),
        lambda bad: identity.task_id(bad, PartitionKey(), "v1"),
        lambda bad: identity.dependency_fingerprint(bad, B, None, HASH, "p"),
        lambda bad: identity.dependency_fingerprint(A, bad, None, HASH, "p"),
    ],
)
@pytest.mark.parametrize("bad", ["", "raw.orders", A + ":", A.lower(), A + "\n"])
def test_asset_ids_must_be_ulids(call: Callable[[Any], str], bad: str) -> None:
    with pytest.raises(Invalid, match="not a valid asset id"):
        call(bad)


@pytest.mark.parametrize("bad", ["", "abc", HASH + "0", HASH[:-1] + "A", HASH + "\n"])
def test_fingerprints_must_be_sha256_hex(bad: str) -> None:
    with pytest.raises(Invalid, match="transform fingerprint"):
        identity.dependency_fingerprint(A, B, None, bad, "p")


@pytest.mark.parametrize("bad", ["", "a:b", "a/b", "a.b", "a b", "é", "a\n", "a" * 129])
def test_parts_that_could_blur_a_readable_key_are_refused(bad: str) -> None:
    calls: list[Callable[[], str]] = [
        lambda: identity.attempt_id(bad, "task", 1),
        lambda: identity.attempt_id("run", bad, 1),
        lambda: identity.timer_name(bad, "run", "task", 1, 0),
    ]
    for call in calls:
        with pytest.raises(Invalid, match="cannot name a"):
            call()


@pytest.mark.parametrize("bad", [0, -1, True, 1.0, "1"])
def test_attempts_count_from_one(bad: Any) -> None:
    with pytest.raises(Invalid, match="not a valid attempt"):
        identity.attempt_id("run", "task", bad)


def test_a_redelivery_has_another_queue_name_and_the_same_attempt() -> None:
    names = [identity.dispatch_name("run", "task", 1, redelivery=n) for n in range(3)]
    assert len(set(names)) == 3
    assert identity.dispatch_name("run", "task", 1) == names[0]
    assert len({identity.timer_name("retry", "r", "t", 1, 9, redelivery=n) for n in range(3)}) == 3


def test_mappings_and_parameters_tell_dependencies_apart() -> None:
    one = identity.dependency_fingerprint(A, B, "identity", HASH, "p")
    others = {
        identity.dependency_fingerprint(B, A, "identity", HASH, "p"),
        identity.dependency_fingerprint(A, B, ["identity"], HASH, "p"),
        identity.dependency_fingerprint(A, B, "identity", "1" * 64, "p"),
        identity.dependency_fingerprint(A, B, "identity", HASH, "q"),
    }
    assert len(others) == 4
    assert one not in others


def test_a_plan_with_a_float_has_no_fingerprint() -> None:
    with pytest.raises(Invalid, match=r"\$\.tasks\[0\]\.cost"):
        identity.plan_fingerprint({"tasks": [{"cost": 0.5}]})


def test_versions_count_from_one() -> None:
    with pytest.raises(Invalid):
        identity.version_label(0)
