"""Adds golden files that are missing; a file that exists is never written.

    python -m tests.golden.record

Of the events of a type and version in all stories, the largest is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from arco.lineage.events import LineageRecorded
from arco.lineage.tables import HELD
from arco.log.envelope import Event, Payload, make_event
from tests.golden.recorded import (
    DIGESTS,
    FOLDS,
    STORED,
    Entry,
    History,
    digest_line,
    event_files,
    files,
    folded,
    read_history,
    rows_of,
)
from tests.golden.stories import STORIES
from tests.kit.runs import Folding


def main() -> None:
    for name, story in STORIES.items():
        if not (FOLDS / f"{name}.json").exists():
            _record_fold(name, story())
    for at, path in event_files().items():
        if not path.exists():
            events = [event for event in _events() if (event.type, event.version) == at]
            _write(path, max(events, key=lambda event: len(bytes(event.data))))
    known = set(DIGESTS.read_text().splitlines()) if DIGESTS.exists() else set()
    named = {line.split()[1] for line in known}
    new = {line for line in map(digest_line, files()) if line.split()[1] not in named}
    DIGESTS.write_text("\n".join(sorted(known | new, key=lambda line: line.split()[1])) + "\n")


def _record_fold(name: str, folding: Folding) -> None:
    entries = [Entry(r.position, r.received_at, r.event) for r in folding.log]
    result = folded(entries)
    assert not result.failures, result.failures
    _write(FOLDS / f"{name}.json", History(entries, rows_of(result)))


def _events() -> Iterator[Event]:
    for path in sorted(FOLDS.glob("*.json")):
        for entry in read_history(path).events:
            yield entry.event
    yield from map(_alone, _without_fold())


def _without_fold() -> Iterator[Payload]:
    """What no history of events has: derived facts that rows keep, and what replays read."""
    by_type = {payload.TYPE: payload for payload in STORED}
    yield by_type["log.rolled_back"](generation=7, position=41, reason="a mistake")
    for path in sorted(FOLDS.glob("*.json")):
        for row in read_history(path).rows.get(str(HELD), ()):
            yield msgspec.json.decode(row["recorded"], type=LineageRecorded)


def _alone(payload: Payload) -> Event:
    return make_event(
        payload,
        id="01K0GOLDENALONE",
        time=datetime(2026, 1, 1),
        source="golden",
        tenant="acme",
        workspace="prod",
    )


def _write(path: Path, value: object) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("xb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n")
    print(path)


if __name__ == "__main__":
    main()
