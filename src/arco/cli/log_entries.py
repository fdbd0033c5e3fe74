"""Reads the log for people: from its end or from a position, one line per event."""

from __future__ import annotations

import fnmatch
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from rich.console import RenderableType
from rich.syntax import Syntax
from rich.text import Text

from arco.cli import render
from arco.cli.failures import visible
from arco.log import segment
from arco.log.envelope import EventTypes, Recorded
from arco.security.audit import SECRET
from arco.state.replay import PositionRange, is_void, read_segment, segments, voided
from arco.state.snapshot import Snapshot
from arco.state.system import OUTCOMES, SegmentRow
from arco.storage.port import Store
from arco.tasks.input_failures import partition_text
from arco.times import short

DIGEST = 160
REACH = 256
"""How many positions to look back at first."""
replace = msgspec.structs.replace
UNTYPED = EventTypes(())
"""Payloads stay raw, so that an event of any type can be shown."""

TypeFilter = Callable[[str], bool]


class LogEntry(NamedTuple):
    recorded: Recorded
    void: bool
    """Whether a rollback has undone it."""


def of_types(patterns: Sequence[str]) -> TypeFilter:
    if not patterns:
        return lambda type_: True
    return lambda type_: any(fnmatch.fnmatchcase(type_, pattern) for pattern in patterns)


def newest(snapshot: Snapshot, count: int, matches: TypeFilter = of_types(())) -> list[LogEntry]:
    """The last `count` events, in order, reading no more segments than that takes."""
    entries: list[LogEntry] = []
    last_position, reach = snapshot.position, max(count, REACH)
    while last_position > 0 and len(entries) < count:
        rows = segments(snapshot, max(1, last_position - reach + 1))
        spans = voided(rows)
        for row in reversed([row for row in rows if row.first_position <= last_position]):
            if len(entries) >= count:
                break
            entries = [*_entries(snapshot.files.store, row, spans, matches), *entries]
            last_position = row.first_position - 1
        reach *= 8
    return entries[len(entries) - count :] if len(entries) > count else entries


def since(
    snapshot: Snapshot, first: int, matches: TypeFilter = of_types(()), limit: int | None = None
) -> Iterator[LogEntry]:
    """Events from a position on, up to the snapshot's."""
    rows = segments(snapshot, first)
    spans = voided(rows)
    left = limit
    for row in rows:
        for entry in _entries(snapshot.files.store, row, spans, matches):
            if entry.recorded.position < first:
                continue
            if left == 0:
                return
            yield entry
            left = None if left is None else left - 1


def _entries(
    store: Store, row: SegmentRow, spans: Sequence[PositionRange], matches: TypeFilter
) -> Iterator[LogEntry]:
    for recorded in segment.decode(read_segment(store, row, ()), UNTYPED):
        if matches(recorded.event.type):
            yield LogEntry(_without_secrets(recorded), _is_rolled_back(recorded.position, spans))


def _without_secrets(recorded: Recorded) -> Recorded:
    """Without the secrets that the audit log leaves out."""
    raw = bytes(recorded.event.data)
    if not any(name.encode() in raw for name in SECRET):
        return recorded
    fields = {name: value for name, value in msgspec.json.decode(raw).items() if name not in SECRET}
    event = replace(recorded.event, data=msgspec.Raw(msgspec.json.encode(fields)))
    return replace(recorded, event=event)


def _is_rolled_back(position: int, spans: Sequence[PositionRange]) -> bool:
    """Whether a rollback voids it. The span of a rollback ends with the rollback itself."""
    return is_void(position, [span for span in spans if span[1] != position])


def document(entry: LogEntry) -> dict[str, Any]:
    """An event as JSON: its place in the log, and its envelope whole."""
    recorded, void = entry
    envelope = {name: getattr(recorded.event, name) for name in recorded.event.__struct_fields__}
    place = {"position": recorded.position, "received_at": recorded.received_at, "void": void}
    fields: dict[str, Any] = render.plain(place | envelope)
    return fields


def outcome(snapshot: Snapshot, entry: LogEntry) -> dict[str, Any] | None:
    """The outcome of a command, if it is still recorded and belongs to this event."""
    event = entry.recorded.event
    row = snapshot.get(OUTCOMES, event.key)
    if row is None or row.event_id != event.id:
        return None
    return {"status": row.status, "code": row.code, "message": row.message}


def one_line(entry: LogEntry) -> Text:
    """An event in one line; on a narrow terminal, its data is on a second one."""
    recorded, void = entry
    event = recorded.event
    line = Text()
    line.append(f"{recorded.position:>6}{'~' if void else ' '} ", "bold")
    line.append(f"{short(recorded.received_at)}  ", "dim")
    line.append(f"{visible(event.type):<26} ", "cyan")
    line.append(f"{visible(event.actor) or '–':<8} ", "green")
    if render.console().is_terminal and render.width() < 120:
        line.rstrip()
        line.append("\n        ")
    line.append(digest(json.loads(bytes(event.data))))
    if void:
        line.stylize("strike dim")
    return line


def digest(data: object) -> str:
    """Data in one line, without empty fields; long values are cut."""
    if not isinstance(data, dict):
        return _cut(visible(json.dumps(data, ensure_ascii=False)))
    parts = [f"{key}={_field(key, value)}" for key, value in data.items() if value not in _EMPTY]
    return _cut(visible(" ".join(parts)).replace("\n", " "))


_EMPTY: tuple[object, ...] = (None, "", [], {})


def brief(value: object) -> str:
    """A value in a few characters."""
    match value:
        case str():
            return value if value and " " not in value else json.dumps(value, ensure_ascii=False)
        case list() | tuple():
            return f"[{','.join(map(_item, value))}]"
        case dict():
            pairs = (f"{k}={_field(k, v)}" for k, v in value.items() if v != "")
            return "{" + ",".join(pairs) + "}"
        case _:
            return json.dumps(render.plain(value))


def _field(name: str, value: object) -> str:
    if name in ("partition", "partition_key") and isinstance(value, str):
        return partition_text(value)
    return brief(value)


def _item(value: object) -> str:
    """An item of a list: its name, if it has one."""
    return str(value["name"]) if isinstance(value, dict) and "name" in value else brief(value)


def _cut(text: str) -> str:
    return text if len(text) <= DIGEST else text[: DIGEST - 1] + "…"


def whole(entry: LogEntry, decided: dict[str, Any] | None) -> list[RenderableType]:
    fields = document(entry)
    data = fields.pop("data")
    if not fields.pop("void"):
        fields["outcome"] = None if decided is None else _outcome_text(decided)
    else:
        fields["outcome"] = "rolled back: it has no effect"
    fields["data"] = ""
    present = {
        name: value for name, value in fields.items() if value not in (None, "") or name == "data"
    }
    text = json.dumps(data, indent=2, ensure_ascii=False)
    body: RenderableType = Text(visible(text))
    if render.console().is_terminal:
        body = Syntax(visible(text), "json", theme="ansi_dark", background_color="default")
    return [render.fields({k: str(v) for k, v in present.items()}), body]


def _outcome_text(decided: dict[str, Any]) -> str:
    if not decided["code"]:
        return str(decided["status"])
    return f"{decided['status']}: {decided['message']} ({decided['code']})"
