"""The text of a notification, for people and for programs.

It contains names, counts, codes and states: no text of user code, no values of data, no secrets.
Details are behind its link, or its command.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from arco.notifications.tables import NotificationItem, NotificationRow, decode_items

MAX_CHARS: Final = 120
WORDS: Final[dict[str, str]] = {
    "asset_failed": "failed",
    "quarantined": "is held by its checks",
    "stale": "is stale",
    "recovered": "has recovered",
    "run_failed": "failed",
    "backfill_failed": "failed",
    "backfill_finished": "has finished",
    "automation_failed": "cannot start its run",
    "cost": "costs more than it should",
    "contract_breach": "breaks its contract",
}
COMMANDS: Final[dict[str, str]] = {
    "schedule": "servo schedules show",
    "sensor": "servo sensors show",
    "webhook": "servo sensors show",
    "backfill": "servo backfill status",
    "freshness": "servo freshness",
    "contract": "servo contracts show",
}


class NotificationText(Struct, frozen=True, kw_only=True):
    """A notification that is ready to be sent."""

    id: str
    rule: str
    workspace: str
    created_at: datetime
    attempt: int
    title: str
    lines: tuple[str, ...]
    items: tuple[NotificationItem, ...] = ()
    subjects: int = 0
    link: str = ""

    @property
    def text(self) -> str:
        return "\n".join([self.title, "", *self.lines, *([self.link] if self.link else [])])

    def document(self) -> bytes:
        """As a generic webhook gets it."""
        fields: dict[str, Any] = {
            "id": self.id,
            "rule": self.rule,
            "workspace": self.workspace,
            "created_at": f"{self.created_at:%Y-%m-%dT%H:%M:%S}Z",
            "title": self.title,
            "text": self.text,
            "items": [msgspec.structs.asdict(item) for item in self.items],
            "subjects": self.subjects,
            "link": self.link,
        }
        return msgspec.json.encode(fields)


def message_of(row: NotificationRow, workspace: str, base_url: str = "") -> NotificationText:
    items = decode_items(row.items)
    lines = [f"- {_line(item, base_url)}" for item in items]
    if row.subjects > len(items):
        lines.append(f"- and {row.subjects - len(items):,} more")
    return NotificationText(
        id=row.notification_id,
        rule=row.rule_id,
        workspace=workspace,
        created_at=row.created_at,
        attempt=row.attempts,
        title=plain(f"{f'[{workspace}] ' if workspace else ''}{_title(items, row.subjects)}"),
        lines=tuple(lines),
        items=tuple(items),
        subjects=row.subjects,
        link=base_url,
    )


def _title(items: Sequence[NotificationItem], subjects: int) -> str:
    """About what is worst: a failure before a recovery, an asset before a run."""
    first = min(items, key=lambda item: (item.event == "recovered", not item.asset))
    # Several items of one asset count as one subject.
    others = subjects - sum(name_of(item) == name_of(first) for item in items)
    more = f" (and {others:,} more)" if others else ""
    return f"{name_of(first)} {_words(first)}{more}"


def _words(item: NotificationItem) -> str:
    words = WORDS[item.event]
    if item.event == "run_failed" and _subject(item)[0] != "run":
        words = "had a run that failed"
    kind, subject = _subject(item)
    if kind == "contract":
        words = _contract_words(item, subject)
    if item.count == 1:
        return words
    units = {"run_failed": "tasks", "stale": "series", "automation_failed": "times"}
    counted = units.get(item.event, "partitions")
    return f"{words} ({item.count:,} {counted})"


def _contract_words(item: NotificationItem, subject: str) -> str:
    """Of the asset itself, or of one that reads it."""
    words = "keeps its contract again" if item.event == "recovered" else WORDS[item.event]
    about, reads, _ = subject.partition(">")
    return f"reads {plain(about)}, which {words}" if reads else words


def _line(item: NotificationItem, base_url: str) -> str:
    code = f": {plain(item.code)}" if item.code else ""
    return f"{name_of(item)} {_words(item)}{code} - {_where(item, base_url)}"


def name_of(item: NotificationItem) -> str:
    """The name of an item's subject."""
    if item.asset:
        return plain(item.asset)
    kind, name = _subject(item)
    return plain(f"{kind} {name}")


def _subject(item: NotificationItem) -> tuple[str, str]:
    """Its kind and its name: that something cannot start, or sense, is about that thing."""
    subject = item.subject.removeprefix("start:").removeprefix("sense:")
    kind, _, name = subject.partition(":")
    return kind, name


def _where(item: NotificationItem, base_url: str) -> str:
    kind, name = _subject(item)
    if kind in ("freshness", "contract"):
        name = name.partition(">")[0] if ">" in name else item.asset or name
    if item.run_id and kind != "contract":
        kind, name = "run", item.run_id
    if base_url:
        page = "assets" if kind in ("freshness", "contract") else f"{kind}s"
        return f"{base_url.rstrip('/')}/{page}/{plain(name)}"
    command = "servo runs show" if kind == "run" else COMMANDS.get(kind, "servo requests list")
    return f"{command} {plain(name)}" if command.endswith(("show", "status", "ness")) else command


def plain(text: str) -> str:
    """One short line without control characters, whatever it was."""
    line = "".join(c if c.isprintable() else " " for c in text)
    return line if len(line) <= MAX_CHARS else f"{line[: MAX_CHARS - 1]}…"
