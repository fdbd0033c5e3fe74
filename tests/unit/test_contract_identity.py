from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from servo.contract import identity
from servo.contract.keys import AssetId
from servo.contract.partition import PartitionKey
from servo.errors import Invalid

A = AssetId("01ARZ3NDEKTSV4RRFFQ69G5FAV")


@pytest.mark.parametrize("bad", ["", "raw.orders", A + ":", A.lower(), A + "\n"])
def test_asset_ids_must_be_ulids(bad: Any) -> None:
    with pytest.raises(Invalid, match="not a valid asset id"):
        identity.task_id(bad, PartitionKey(), "v1")


@pytest.mark.parametrize("bad", ["", "a:b", "a/b", "a.b", "a b", "é", "a\n", "a" * 129])
def test_parts_that_could_blur_a_readable_key_are_refused(bad: str) -> None:
    calls: list[Callable[[], str]] = [
        lambda: identity.attempt_id(bad, "task", 1),
        lambda: identity.attempt_id("run", bad, 1),
        lambda: identity.timer_key(bad, "run", "task", 1, 0),
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


def test_versions_count_from_one() -> None:
    with pytest.raises(Invalid):
        identity.version_label(0)
