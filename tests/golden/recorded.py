"""Golden files of events and of folds: where they are, and how they are compared.

    events/{type}.v{version}.json   one event, as the log has it
    folds/{name}.json               events in their order, and the rows that they fold to

They are what workspaces have on disk, so they stay for ever: a newer program must decode every
event, and fold every history to the recorded rows. `python -m tests.golden.record` adds files
that are missing and never writes one that exists. `digests.txt` has the SHA-256 of each: who
changes a golden file has to change that line too, and to give the reason in the commit.

A program may know more than the file: fields and columns that were added since are not compared.
Nor are sentences that a fold writes for people (`PROSE`), which may be reworded.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from arco.app import EVENTS, chain
from arco.lineage.events import LineageRecorded
from arco.log.envelope import Event, EventTypes, Payload, Recorded
from arco.state.fold import Folded, NoRows, fold

HERE = Path(__file__).parent
FOLDS = HERE / "folds"
DIGESTS = HERE / "digests.txt"
STORED: tuple[type[Payload], ...] = (*EVENTS, LineageRecorded)
"""`LineageRecorded` is derived, and kept as JSON in rows of `lineage.held`."""
TYPES = EventTypes(STORED)
CHAIN = chain()
PROSE = frozenset({"message", "reason", "error_message", "error_hint", "cancel_reason"})


class Entry(msgspec.Struct, frozen=True):
    position: int
    received_at: datetime
    event: Event


class History(msgspec.Struct, frozen=True):
    events: list[Entry]
    rows: dict[str, list[dict[str, Any]]]


def event_file(type_: str, version: int) -> Path:
    return HERE / "events" / f"{type_}.v{version}.json"


def event_files() -> dict[tuple[str, int], Path]:
    """What must be there: every type at every version."""
    versions = ((p.TYPE, v) for p in STORED for v in range(1, p.VERSION + 1))
    return {(type_, v): event_file(type_, v) for type_, v in versions}


def read_event(path: Path) -> Event:
    return msgspec.json.decode(path.read_bytes(), type=Event)


def read_history(path: Path) -> History:
    return msgspec.json.decode(path.read_bytes(), type=History)


def recorded_events(entries: Iterable[Entry]) -> list[Recorded]:
    """The entries, decoded by today's program."""
    return [
        Recorded(
            entry.position,
            entry.received_at,
            entry.event,
            TYPES.decode(entry.event.type, entry.event.version, entry.event.data),
        )
        for entry in entries
    ]


def folded(entries: Iterable[Entry]) -> Folded:
    """The entries, decoded and folded by today's program, from nothing and in one batch."""
    return fold(CHAIN, NoRows(), recorded_events(entries))


def rows_of(result: Folded) -> dict[str, list[dict[str, Any]]]:
    """The rows of each table, by key, as JSON has them."""
    return {
        str(table): [
            msgspec.json.decode(msgspec.json.encode(plain(row)))
            for key in sorted(rows)
            if (row := rows[key][1]) is not None
        ]
        for table, rows in sorted(result.changes.items(), key=lambda item: str(item[0]))
    }


REPLACED = frozenset(
    f"lineage.{name}"
    for name in (
        "edges",
        "edge_metadata",
        "executions",
        "columns",
        "coverage",
        "held",
        "uses",
        "dependents",
    )
)
"""Tables that no version writes any more: others have their place, and a rebuild fills those."""


def comparable(value: Any) -> Any:
    """Rows without sentences for people, and with texts that hold JSON taken apart."""
    match value:
        case dict():
            return {name: comparable(v) for name, v in value.items() if name not in PROSE}
        case list():
            return [comparable(item) for item in value]
        case str() if value.startswith(("{", "[")):
            return comparable(msgspec.json.decode(value))
    return value


def plain(value: Any) -> Any:
    """Structs as objects with all their fields, those with default values too."""
    match value:
        case enum.Enum():
            return value.value
        case msgspec.Struct():
            fields = {f.encode_name: getattr(value, f.name) for f in msgspec.structs.fields(value)}
            config = value.__struct_config__
            tag = {} if config.tag is None else {config.tag_field: config.tag}
            return tag | {n: plain(v) for n, v in fields.items() if v is not msgspec.UNSET}
        case dict():
            return {name: plain(item) for name, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case datetime():
            return msgspec.to_builtins(value)
    return value


def missing(recorded: Any, today: Any, at: str = "") -> list[str]:
    """Where today's value lacks something of the recorded one, or has something else."""
    match recorded, today:
        case dict(), dict():
            return [
                problem
                for name, item in recorded.items()
                for problem in (
                    missing(item, today[name], f"{at}.{name}")
                    if name in today
                    else [f"{at}.{name} is gone"]
                )
            ]
        case list(), list() if len(recorded) == len(today):
            pairs = enumerate(zip(recorded, today, strict=True))
            return [p for i, (old, new) in pairs for p in missing(old, new, f"{at}[{i}]")]
    return [] if recorded == today else [f"{at} was {recorded!r}, and is {today!r}"]


def digest_line(path: Path) -> str:
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(HERE).as_posix()}"


def files() -> list[Path]:
    return sorted([*(HERE / "events").glob("*.json"), *FOLDS.glob("*.json")])
