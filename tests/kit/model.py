"""The catalog in plain Python: what the log means, written a second time.

The model reads the log as JSON, one event after the other, and keeps dicts. It
knows nothing of stages, buckets, files or warm state, and shares no code with
the fold: what both agree on is right, or wrong twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from arco.app import Workspace
from arco.log import segment as segments
from arco.state.snapshot import Snapshot
from arco.state.system import SEGMENTS, segment_ref
from tests.kit.histories import column_id

DAY = timedelta(days=1)
MAPS = ("tags", "properties", "links")
NAMES = re.compile(r"[a-z][a-z0-9_]{0,127}")
VERSIONS = {
    "catalog.asset_updated": 2,
    "catalog.column_added": 2,
    "catalog.column_updated": 3,
    "catalog.column_dropped": 3,
}

Data = dict[str, Any]
Cell = tuple[int, Data]
"""The position that last changed a row, and the row."""
State = dict[str, dict[tuple[Any, ...], Cell]]

TABLES = (
    "catalog.asset_names",
    "catalog.asset_stats",
    "catalog.assets",
    "catalog.columns",
    "catalog.namespaces",
    "log.commands",
    "log.outcomes",
)


class Entry(NamedTuple):
    """One position of the log."""

    position: int
    received_at: datetime
    id: str
    type: str
    version: int
    key: str
    actor: str
    data: Data


def read_log(w: Workspace, snapshot: Snapshot | None = None) -> list[Entry]:
    """The whole log, from the segments that a snapshot lists; positions must be dense."""
    snapshot = snapshot or w.read.snapshot()
    entries: list[Entry] = []
    for row in sorted(snapshot.all(SEGMENTS), key=lambda row: row.first_position):
        for raw in segments.read_table(w.store, segment_ref(row)).to_pylist():
            entries.append(
                Entry(
                    raw["position"],
                    raw["received_at"],
                    raw["id"],
                    raw["type"],
                    raw["version"],
                    raw["idempotency_key"] or raw["id"],
                    raw["actor"],
                    json.loads(raw["data"]),
                )
            )
    assert [e.position for e in entries] == list(range(1, snapshot.position + 1))
    return entries


class _Table(dict[tuple[Any, ...], Cell]):
    def put(self, key: tuple[Any, ...], row: Data, position: int) -> None:
        if key not in self or self[key][1] != row:
            self[key] = (position, row)

    def row(self, *key: Any) -> Data | None:
        found = self.get(key)
        return None if found is None else found[1]


UNSEEN_IN_DATA = {
    "declared_by": "person",
    "actual_type": "",
    "actual_nullable": True,
    "difference": "",
    "status": "Active",
    "first_version": 0,
    "last_version": 0,
    "lacking_version": 0,
    "field_id": None,
    "renaming_to": "",
}
"""What a column says of data, where there is none."""


class Refusal(Exception):
    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Model:
    """Apply entries in order, then look at `state()`."""

    def __init__(self) -> None:
        self.namespaces = _Table()
        self.names = _Table()
        self.assets = _Table()
        self.columns = _Table()
        self.stats = _Table()
        self.commands = _Table()
        self.outcomes = _Table()
        self.skipped: dict[str, int] = {}
        self._commands: dict[str, Callable[[Entry], None]] = {
            "catalog.namespace_created": self._namespace_created,
            "catalog.namespace_updated": self._namespace_updated,
            "catalog.namespace_dropped": self._namespace_dropped,
            "catalog.asset_created": self._asset_created,
            "catalog.asset_updated": self._asset_updated,
            "catalog.asset_renamed": self._asset_renamed,
            "catalog.asset_dropped": self._asset_dropped,
            "catalog.column_added": self._column_added,
            "catalog.column_updated": self._column_updated,
            "catalog.column_dropped": self._column_dropped,
        }

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Model:
        model = cls()
        for entry in entries:
            model.apply(entry)
        return model

    def state(self) -> State:
        return {
            "catalog.asset_names": dict(self.names),
            "catalog.asset_stats": dict(self.stats),
            "catalog.assets": dict(self.assets),
            "catalog.columns": dict(self.columns),
            "catalog.namespaces": dict(self.namespaces),
            "log.commands": dict(self.commands),
            "log.outcomes": dict(self.outcomes),
        }

    def apply(self, e: Entry) -> None:
        known = e.type in self._commands or e.type == "catalog.asset_observed"
        if not known or e.version > VERSIONS.get(e.type, 1):
            kind = f"{e.type}@{e.version}"
            self.skipped[kind] = self.skipped.get(kind, 0) + 1
        elif e.type == "catalog.asset_observed":
            self._observed(e)
        elif not self._used(e):
            self._decide(e)

    def _used(self, e: Entry) -> bool:
        before = self.commands.row(e.key)
        return before is not None and before["received_at"] >= e.received_at - DAY

    def _decide(self, e: Entry) -> None:
        self.commands.put(
            (e.key,), {"event_id": e.id, "type": e.type, "received_at": e.received_at}, e.position
        )
        try:
            self._commands[e.type](e)
            status, code = "applied", ""
        except Refusal as refusal:
            status, code = "refused", refusal.code
        outcome = {
            "event_id": e.id,
            "type": e.type,
            "status": status,
            "code": code,
            "decided_at": e.received_at,
        }
        self.outcomes.put((e.key,), outcome, e.position)

    # Namespaces

    def _namespace_created(self, e: Entry) -> None:
        name = e.data["namespace"]
        _check_names(name)
        if self.namespaces.row(name) is not None:
            raise Refusal("namespace_exists")
        row = {
            "description": e.data["description"],
            "owners": e.data["owners"],
            "tags": e.data["tags"],
            "properties": e.data["properties"],
            "assets": 0,
            **_unsaid("sla", "terms", "links"),
            **_stamps(e),
        }
        self.namespaces.put((name,), row, e.position)

    def _namespace(self, name: str) -> Data:
        row = self.namespaces.row(name)
        if row is None:
            raise Refusal("namespace_not_found")
        return row

    def _namespace_updated(self, e: Entry) -> None:
        key = (e.data["namespace"],)
        row = self._namespace(*key)
        _expect(e, self.namespaces[key][0])
        given = _given(e, "description", "owners", "tags", "properties")
        self.namespaces.put(key, {**row, **given, **_touch(e)}, e.position)

    def _namespace_dropped(self, e: Entry) -> None:
        if self._namespace(e.data["namespace"])["assets"]:
            raise Refusal("namespace_not_empty")
        del self.namespaces[(e.data["namespace"],)]

    def _count(self, e: Entry, by: int) -> None:
        key = (e.data["namespace"],)
        row = self.namespaces[key][1]
        self.namespaces.put(key, {**row, "assets": row["assets"] + by}, e.position)

    # Assets

    def _asset_created(self, e: Entry) -> None:
        d = e.data
        _check_names(d["namespace"], d["name"])
        self._namespace(d["namespace"])
        if (d["namespace"], d["name"]) in self.names:
            raise Refusal("name_taken")
        self.names.put((d["namespace"], d["name"]), {"asset_id": e.id}, e.position)
        self._count(e, 1)
        fields = "namespace name kind format location description owners tags properties"
        row = {f: d[f] for f in fields.split()}
        row |= {"previous_names": [], "project": "", "active": True}
        row |= _unsaid("sla", "terms", "links", "deprecated", "imported_from")
        self.assets.put((e.id,), {**row, **_stamps(e)}, e.position)
        for ordinal, column in enumerate(d["columns"]):
            self._put_column(e, e.id, column, ordinal)

    def _asset(self, e: Entry) -> Data:
        row = self.assets.row(e.data["asset_id"])
        if row is None:
            raise Refusal("asset_not_found")
        if e.data.get("asset_key") not in (None, f"{row['namespace']}.{row['name']}"):
            raise Refusal("asset_not_found")
        return row

    def _asset_updated(self, e: Entry) -> None:
        row = self._asset(e)
        key = (e.data["asset_id"],)
        _expect(e, self.assets[key][0])
        fields = ("kind", "format", "location", "description", "owners", "tags", "properties")
        self.assets.put(key, {**row, **_given(e, *fields), **_touch(e)}, e.position)

    def _held(self, e: Entry) -> tuple[str, str]:
        name = (e.data["namespace"], e.data["name"])
        if self.names.row(*name) != {"asset_id": e.data["asset_id"]}:
            raise Refusal("asset_not_found")
        return name

    def _asset_renamed(self, e: Entry) -> None:
        _check_names(e.data["new_name"])
        name = self._held(e)
        new = (e.data["namespace"], e.data["new_name"])
        if new in self.names:
            raise Refusal("name_taken")
        row = self._asset(e)
        del self.names[name]
        self.names.put(new, {"asset_id": e.data["asset_id"]}, e.position)
        names = {"name": new[1], "previous_names": [*row["previous_names"], row["name"]]}
        self.assets.put((e.data["asset_id"],), {**row, **names, **_touch(e)}, e.position)

    def _asset_dropped(self, e: Entry) -> None:
        name = self._held(e)
        asset = e.data["asset_id"]
        del self.names[name]
        self._count(e, -1)
        del self.assets[(asset,)]
        for key in [key for key in self.columns if key[0] == asset]:
            del self.columns[key]

    def _observed(self, e: Entry) -> None:
        d = e.data
        before = self.stats.row(d["asset_id"])
        if before is not None and before["observed_by"] >= e.id:
            return
        row = {f: d[f] for f in ("row_count", "size_bytes", "files")}
        row |= {"observed_by": e.id, "observed_at": e.received_at}
        self.stats.put((d["asset_id"],), row, e.position)

    # Columns

    def _of(self, asset: str) -> dict[tuple[Any, ...], Data]:
        return {key: row for key, (_, row) in self.columns.items() if key[0] == asset}

    def _put_column(self, e: Entry, asset: str, column: Data, ordinal: int) -> None:
        row = {
            **column,
            **_unsaid("terms"),
            **UNSEEN_IN_DATA,
            "ordinal": ordinal,
            "created_at": e.received_at,
            "updated_at": e.received_at,
        }
        self.columns.put((asset, column_id(e.id, ordinal)), row, e.position)

    def _column_added(self, e: Entry) -> None:
        self._asset(e)
        asset, column = e.data["asset_id"], e.data["column"]
        there = self._of(asset).values()
        if column["name"] in [c["name"] for c in there]:
            raise Refusal("column_exists")
        self._put_column(e, asset, column, max((c["ordinal"] for c in there), default=-1) + 1)

    def _column(self, e: Entry) -> tuple[tuple[str, str], Data]:
        key = (e.data["asset_id"], e.data["column_id"])
        row = self.columns.row(*key)
        if row is None:
            raise Refusal("column_not_found")
        self._asset(e)
        if e.data.get("column_name") not in (None, row["name"]):
            raise Refusal("column_not_found")
        _expect(e, self.columns[key][0])
        return key, row

    def _column_updated(self, e: Entry) -> None:
        key, row = self._column(e)
        others = [c["name"] for k, c in self._of(key[0]).items() if k != key]
        if e.data["name"] in others:
            raise Refusal("column_exists")
        given = _given(e, "name", "type", "nullable", "description", "pii", "sensitivity")
        self.columns.put(key, {**row, **given, "updated_at": e.received_at}, e.position)

    def _column_dropped(self, e: Entry) -> None:
        key, _ = self._column(e)
        del self.columns[key]


def _check_names(*names: str) -> None:
    if not all(NAMES.fullmatch(name) for name in names):
        raise Refusal("invalid_name")


def _stamps(e: Entry) -> Data:
    return {"created_at": e.received_at, "created_by": e.actor, **_touch(e)}


def _unsaid(*fields: str) -> Data:
    """Fields that these events do not have."""
    empty = {"sla": "", "terms": [], "links": {}, "deprecated": "", "imported_from": ""}
    return {field: empty[field] for field in fields}


def _touch(e: Entry) -> Data:
    return {"updated_at": e.received_at, "updated_by": e.actor}


def _given(e: Entry, *fields: str) -> Data:
    return {f: e.data[f] for f in fields if e.data[f] is not None}


def _expect(e: Entry, found: int) -> None:
    if e.data.get("expected_version") not in (None, found):
        raise Refusal("version_mismatch")


def state_of(w: Workspace, snapshot: Snapshot | None = None) -> State:
    """What a reader sees, in the model's shape. Texts for people are left out."""
    snapshot = snapshot or w.read.snapshot()
    state: State = {name: {} for name in TABLES}
    for table in w.chain.tables:
        if str(table) not in state:
            continue
        for row in snapshot.scan(table).to_pylist():
            version = row.pop("row_version")
            key = tuple(row.pop(c) for c in table.key)
            for extra in ("_deleted", "_bucket", "message", "fingerprint"):
                row.pop(extra, None)
            for column in MAPS:
                if column in row:
                    row[column] = dict(row[column])
            state[str(table)][key] = (version, row)
    return state


def check_against_model(w: Workspace, snapshot: Snapshot | None = None) -> Model:
    """Assert that a snapshot is exactly what the log up to its position means."""
    snapshot = snapshot or w.read.snapshot()
    model = Model.of(read_log(w, snapshot))
    found, expected = state_of(w, snapshot), model.state()
    for table in TABLES:
        assert found[table] == expected[table], table
    return model
