"""Events of all versions are decoded and folded by today's program as they always were.

The files are described in `tests/golden/recorded.py`. They are what is in people's logs: a
failure here says that this program reads an existing workspace differently. Mend the program.
`python -m tests.golden.record` adds files for new events and versions, and rewrites none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from arco.state.fold import Fact, FoldFailure, NoRows, Rows, fold_stage
from tests.golden.recorded import (
    CHAIN,
    DIGESTS,
    FOLDS,
    REPLACED,
    STORED,
    TYPES,
    comparable,
    digest_line,
    event_files,
    files,
    folded,
    missing,
    plain,
    read_event,
    read_history,
    recorded_events,
    rows_of,
)

EVENT_FILES = event_files()
HISTORIES = sorted(FOLDS.glob("*.json"))


RICHER = {
    "catalog.columns": ("asset_id", "column_id"),
    "catalog.column_renames": ("asset_id", "column_id", "number"),
    "lineage.column_coverage": ("target",),
}
"""Tables, with their keys, in which a rebuild knows more than a program did that kept no schemas:
columns that are in the data alone, and what of a declared column is in the data."""
LATER = {
    *("declared_by", "actual_type", "actual_nullable", "difference", "status", "first_version"),
    *("last_version", "lacking_version", "field_id", "renaming_to", "updated_at"),
    *("observed_at", "named_at", "materialization_id", "outputs"),
}
DESCRIBED = {
    "security.audit": {
        *("action", "namespace", "resource_type", "resource_id", "resource_name"),
        *("changes", "seal"),
    },
    "lineage.column_states": {"coverage", "outputs"},
    "orchestration.runs": {"namespaces"},
}
"""What a later program may tell in more detail of the same record (ADR 37). Its hash stays. Of
states of columns: how many outputs count for them, also in the row of coverage that they hold."""
MARKS = {
    "catalog.columns": "declared_by",
    "catalog.column_renames": "in_data_at",
    "lineage.column_coverage": "state_position",
}
"""Fields that rows have which were recorded since."""


def without_what_is_new(
    table: str, recorded: list[dict[str, Any]], rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Of rows that a rebuild adds to, the part that an older program knew."""
    if described := DESCRIBED.get(table):
        return [{name: v for name, v in row.items() if name not in described} for row in rows]
    if table not in RICHER or all(MARKS[table] in row for row in recorded):
        return rows
    keys = [tuple(row[name] for name in RICHER[table]) for row in recorded]
    return [
        {name: value for name, value in row.items() if name not in {*LATER, MARKS[table]}}
        for row in rows
        if tuple(row[name] for name in RICHER[table]) in keys
    ]


def name_of(path: Path) -> str:
    return path.stem


def test_every_version_of_every_event_has_a_golden_file() -> None:
    absent = [path.name for path in EVENT_FILES.values() if not path.exists()]
    assert absent == [], "add the event to tests/golden/stories, then tests.golden.record"


def test_no_golden_file_was_changed_or_removed() -> None:
    assert DIGESTS.read_text().splitlines() == [digest_line(path) for path in files()]


@pytest.mark.parametrize("path", EVENT_FILES.values(), ids=name_of)
def test_event_is_decoded_with_all_that_it_says(path: Path) -> None:
    event = read_event(path)
    payload = TYPES.decode(event.type, event.version, event.data)
    assert payload is not None and path.stem == f"{event.type}.v{event.version}"
    assert missing(msgspec.json.decode(event.data), plain(payload)) == []


@pytest.mark.parametrize("path", HISTORIES, ids=name_of)
def test_history_is_folded_to_the_recorded_rows(path: Path) -> None:
    history = read_history(path)
    result = folded(history.events)
    assert result.failures == []
    recorded = {table: rows for table, rows in history.rows.items() if table not in REPLACED}
    today = rows_of(result)
    for table in (RICHER.keys() | DESCRIBED.keys()) & recorded.keys():
        today[table] = without_what_is_new(table, recorded[table], today[table])
        recorded[table] = without_what_is_new(table, recorded[table], recorded[table])
    assert missing(comparable(recorded), comparable(today)) == []


@pytest.mark.parametrize("path", HISTORIES, ids=name_of)
def test_recorded_rows_are_read_as_the_rows_that_are_folded_today(path: Path) -> None:
    history = read_history(path)
    today = folded(history.events).changes
    for table in CHAIN.tables:
        for row in history.rows.get(str(table), ()):
            key, read = table.from_json(msgspec.json.encode(row).decode(), deleted=False)
            now = plain(today[table][key][1])
            (then,) = without_what_is_new(str(table), [row], [plain(read)])
            (now,) = without_what_is_new(str(table), [row], [now])
            assert comparable(then) == comparable(now)


def test_histories_have_every_event_that_a_fold_takes() -> None:
    seen = {(e.event.type, e.event.version) for p in HISTORIES for e in read_history(p).events}
    taken = {payload.TYPE for stage in CHAIN.stages for payload in stage.on}
    logged = {payload.TYPE for payload in STORED if payload in CHAIN.events}
    assert {at for at in EVENT_FILES if at[0] in taken & logged} <= seen


def test_histories_leave_rows_in_every_table() -> None:
    filled = {table for p in HISTORIES for table, rows in read_history(p).rows.items() if rows}
    assert {str(table) for table in CHAIN.tables} - filled == set()


def test_difference_to_a_golden_value_is_found() -> None:
    old = {"a": 1, "b": [{"c": 2}], "d": {}}
    assert missing(old, old | {"new": 0}) == []
    assert missing(old, {"a": 1, "b": [{"c": 3}], "d": {}}) == [".b[0].c was 2, and is 3"]
    assert missing(old, {"a": 1, "b": []}) == [".b was [{'c': 2}], and is []", ".d is gone"]


@pytest.mark.parametrize("path", HISTORIES, ids=name_of)
def test_derived_facts_mean_the_same_after_they_have_travelled(path: Path) -> None:
    """As between stages on Spark: each as the JSON of its own type."""
    entries = read_history(path).events
    expected = folded(entries)
    queues: list[list[Fact]] = [[] for _ in CHAIN.stages]
    for recorded in recorded_events(entries):
        for at, fact in CHAIN.entries(recorded):
            queues[at].append(fact)
    rows, failures = Rows(NoRows()), list[FoldFailure]()
    for at, stage in enumerate(CHAIN.stages):
        queues[at].sort(key=lambda fact: fact.position)
        for fact in fold_stage(stage, rows, queues[at], failures):
            text = msgspec.json.encode(fact.payload)
            payload = msgspec.json.decode(text, type=type(fact.payload))
            for taker in CHAIN.takers(fact.payload, at):
                queues[taker].append(msgspec.structs.replace(fact, payload=payload))
    assert (failures, rows.changes) == ([], expected.changes)
