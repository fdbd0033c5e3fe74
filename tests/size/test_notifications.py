"""Thousands of failures are one message, and rows follow what is told, not what failed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from arco.catalog.events import AssetDeclared
from arco.execution.events import OutputMissed
from arco.log.envelope import Payload
from arco.notifications import listed_items
from arco.notifications.listed_items import LISTED
from arco.notifications.message import message_of
from arco.notifications.tables import (
    ALERTS,
    ASSET_FAILURES,
    NOTIFICATION_QUEUES,
    NOTIFICATIONS,
    NotificationItem,
    NotificationRow,
    decode_items,
)
from arco.orchestration.declarations import DeployedNotification, NotificationDeclared
from arco.state.fold import Rows
from servo.contract.task import ErrorInfo
from tests.kit.depth import scaled
from tests.kit.notifications import folded

ERROR = ErrorInfo(category="user_code", code="user_code.ValueError", message="4711")
MANY = scaled(10_000, 100_000)


def story(assets: int, partitions: int) -> Iterator[Payload]:
    rule = DeployedNotification(name="all", on=("asset_failed",), to=("ops",))
    yield NotificationDeclared(project="shop", deployment_id="D", declaration=rule)
    for n in range(assets):
        yield AssetDeclared(asset_id=f"A{n}", namespace="shop", name=f"a{n}", project="shop")
    for n in range(assets):
        for p in range(partitions):
            yield OutputMissed(asset_id=f"A{n}", partition=f"n=i:{p}", run_id="R", error=ERROR)


def only_message(rows: Rows) -> NotificationRow:
    ((_, row),) = rows.changes[NOTIFICATIONS].values()
    assert row is not None
    message: NotificationRow = row
    return message


@pytest.mark.parametrize(("assets", "partitions"), [(1, MANY), (MANY // 100, 100)])
def test_many_failed_tasks_are_one_message(assets: int, partitions: int) -> None:
    rows = folded(list(story(assets, partitions)))
    message = only_message(rows)
    items = json.loads(message.items)
    assert message.subjects == assets
    assert len(items) == min(assets, LISTED)
    assert items[0]["count"] == partitions
    text = message_of(message, "w").text
    assert len(text) < 12_000
    assert (f"and {assets - LISTED:,} more" in text) == (assets > LISTED)
    assert len(rows.changes[ALERTS]) == len(rows.changes[ASSET_FAILURES]) == assets
    assert len(rows.changes[NOTIFICATION_QUEUES]) == 1


def test_a_message_is_not_taken_apart_for_each_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def decode(text: str) -> list[NotificationItem]:
        texts.append(text)
        items: list[NotificationItem] = decode_items(text)
        return items

    monkeypatch.setattr(listed_items, "decode_items", decode)
    rows = folded(list(story(LISTED + 10, 20)))
    assert only_message(rows).subjects == LISTED + 10
    assert len(texts) <= 1
