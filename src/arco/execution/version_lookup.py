"""Finds a version by its partition, its number or its id.

A complete partition key costs lookups of single rows. A text that names only some of its dimensions
is compared with the keys of all partitions of the asset.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from itertools import product
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from arco.errors import Invalid, NotFound
from arco.execution.reader import ExecutionReader
from arco.execution.states import PartitionStatus, VersionStatus
from arco.execution.tables import PARTITION_STATUS, PARTITIONS, MaterializationRow
from arco.state.snapshot import Snapshot
from arco.state.table import Table
from arco.tasks.input_failures import partition_text, rerun_command
from servo.contract.partition import PartitionKey, Scalar
from servo.contract.ulid import is_ulid

MIN_CHARS = 4
"""Minimum length of the beginning of an id that names a version."""
_NUMBER = re.compile(r"(?:v_?)?(\d{1,9})", re.IGNORECASE)
_MONTH = re.compile(r"\d{4}-\d\d")


class VersionLookup:
    """The versions of one asset at one generation."""

    def __init__(self, snapshot: Snapshot, asset: str, asset_id: str) -> None:
        self._snapshot = snapshot
        self._reader = ExecutionReader(snapshot)
        self.asset = asset
        self.asset_id = asset_id

    # -- partitions -----------------------------------------------------------------------

    def partition(self, texts: Sequence[str], *, may_be_absent: bool = False) -> str:
        """The key of the one partition that `name=value` texts name; without any, of the asset
        that has no partitions, or of the partition whose current version is the newest."""
        if not texts:
            return self._newest()
        keys = self.partitions(texts)
        if not keys and may_be_absent:
            return _whole_key(texts)
        if len(keys) == 1:
            return keys[0]
        requested = " ".join(texts)
        if not keys:
            raise NotFound(
                f"{self.asset} has no partition {requested}",
                hint=f"see `servo partitions versions {self.asset}`",
            )
        few = "; ".join(partition_text(key) for key in keys[:3])
        raise Invalid(
            f"{requested} names {len(keys):,} partitions of {self.asset}",
            hint=f"give all dimensions, with one -p for each: {few}",
        )

    def partitions(self, texts: Sequence[str]) -> list[str]:
        """The keys that have all the values that `name=value` texts name, sorted."""
        for key in _candidates(texts):
            if self._snapshot.get(PARTITION_STATUS, self.asset_id, key) is not None:
                return [key]
        rows: pa.Table = self._snapshot.columns(PARTITION_STATUS, self.asset_id, [])
        keys: list[str] = rows.column("partition_key").to_pylist()
        return sorted(key for key in keys if names_partition(texts, key))

    def _newest(self) -> str:
        current = self._last(PARTITIONS, "position")
        if current is None:
            tried = self._last(PARTITION_STATUS, "last_at")
            hint = f"run it: servo run {self.asset}" if tried is None else self._reason(tried)
            raise NotFound(f"{self.asset} has no current version", hint=hint)
        return current

    def _last(self, table: Table[Any], column: str) -> str | None:
        """The key of the partition whose row has the greatest value in a column."""
        rows = self._snapshot.columns(table, self.asset_id, [column])
        if not rows.num_rows:
            return None
        at = pc.index(rows.column(column), pc.max(rows.column(column))).as_py()
        return str(rows.column("partition_key")[at])

    # -- versions -------------------------------------------------------------------------

    def current(self, partition: str) -> MaterializationRow:
        row = self._snapshot.get(PARTITIONS, self.asset_id, partition)
        version = None
        if row is not None:
            version = self._reader.materialization(self.asset_id, row.materialization_id)
        if version is None:
            raise NotFound(
                f"{self.name(partition)} has no current version", hint=self._reason(partition)
            )
        return version

    def _reason(self, partition: str) -> str:
        """Why a partition has no current version, and what to do."""
        row = self._snapshot.get(PARTITION_STATUS, self.asset_id, partition)
        match None if row is None else row.status:
            case PartitionStatus.QUARANTINED | PartitionStatus.BLOCKED if row is not None:
                return f"its last output is held: see `servo quarantine show {row.last}`"
            case PartitionStatus.REJECTED:
                again = rerun_command(self.asset, partition)
                return f"its last output was rejected; make it again: {again}"
            case PartitionStatus.FAILED:
                return f"its last attempt failed: see `servo explain {self.asset}`"
        return f"see `servo partitions history {self.asset}`"

    def version(self, texts: Sequence[str], version: str | None) -> MaterializationRow:
        """The version with this number or id of the partition that the texts name; the current
        one without any. An id names its partition too."""
        if version is None or version == "current":
            return self.current(self.partition(texts))
        if (match := _NUMBER.fullmatch(version)) is not None:
            return self.numbered(self.partition(texts), int(match[1]))
        return self._beginning_with(version, self.partition(texts) if texts else None)

    def numbered(self, partition: str | None, number: int) -> MaterializationRow:
        """Of the one partition that has a version with this number, if none is given."""
        rows = self._reader.versions(
            self.asset_id,
            partition=partition,
            matches=lambda row: row.version == number,
            limit=2 if partition is None else 1,
        )
        if not rows or not number:
            raise NotFound(
                f"{self.name(partition or '')} has no version {number}",
                hint=f"see `servo partitions history {self.asset}`",
            )
        if len(rows) > 1:
            raise Invalid(
                f"several partitions of {self.asset} have a version {number}",
                hint="give a partition",
            )
        return rows[0]

    def _beginning_with(self, text: str, partition: str | None) -> MaterializationRow:
        start = text.upper()
        row = self._reader.materialization(self.asset_id, start) if is_ulid(start) else None
        rows = [] if row is None else [row]
        if row is None and len(start) >= MIN_CHARS:
            rows = self._reader.versions(
                self.asset_id,
                partition=partition,
                matches=lambda row: row.materialization_id.startswith(start),
                limit=2,
            )
        if not rows:
            raise NotFound(
                f"{text!r} is not the number or the id of a version of {self.asset}",
                hint=f"see `servo partitions history {self.asset}`",
            )
        if len(rows) > 1:
            ids = ", ".join(row.materialization_id for row in rows)
            raise Invalid(f"{text!r} names several versions", hint=f"give more characters: {ids}")
        return rows[0]

    def before(self, version: MaterializationRow) -> MaterializationRow | None:
        """The newest good version of its partition that is older, and has its files."""

        def matches(row: MaterializationRow) -> bool:
            # Not by the status: a row that came back from history has an older copy there.
            return row.position < version.position

        for limit in (2, 20, None):
            rows = self._reader.versions(
                self.asset_id, partition=version.partition_key, matches=matches, limit=limit
            )
            good = [row for row in rows if row.status == VersionStatus.GOOD]
            if good:
                return max(good, key=lambda row: row.position)
            if limit is None or len(rows) < limit:
                break
        return None

    def partition_version(self, partition: str) -> int:
        """The row version of a partition."""
        return self._snapshot.versioned(PARTITIONS, (self.asset_id, partition))[0]

    def name(self, partition: str) -> str:
        text = partition_text(partition)
        return f"{self.asset}[{text}]" if text else self.asset


def names_partition(texts: Sequence[str], key: str) -> bool:
    """Whether a key has all the values that `name=value` texts name; other dimensions are free."""
    if key in texts:
        return True
    spelled = dict(part.split("=", 1) for part in partition_text(key).split(",") if part)
    values = {name: str(value) for name, value in PartitionKey.parse(key).dimensions.items()}
    return all(
        _has(spelled, values, text) or all(_has(spelled, values, part) for part in text.split(","))
        for text in texts
    )


def _has(spelled: Mapping[str, str], values: Mapping[str, str], text: str) -> bool:
    name, equals, value = text.partition("=")
    return bool(equals) and value in (spelled.get(name), values.get(name))


def _whole_key(texts: Sequence[str]) -> str:
    """The key of the texts; if a text may have several types, the first of them."""
    for key in _candidates([part for text in texts for part in text.split(",") if part.strip()]):
        with suppress(Invalid):
            return str(PartitionKey.parse(key))
    raise Invalid(
        f"{' '.join(texts)!r} does not name a partition",
        hint="write dimension=value: -p date=2026-01-31",
    )


def _candidates(texts: Sequence[str]) -> Iterator[str]:
    """The possible keys of the texts, which do not contain the types of values."""
    for pairs in (texts, [part for text in texts for part in text.split(",")]):
        yield ",".join(pairs)  # a key as it is stored
        split = [pair.partition("=") for pair in pairs]
        if not all(equals for _, equals, _ in split):
            continue
        names = [name.strip() for name, _, _ in split]
        for values in product(*(list(_values(value)) for _, _, value in split)):
            try:
                yield str(PartitionKey(dict(zip(names, values, strict=True))))
            except Invalid:
                continue


def _values(text: str) -> Iterator[Scalar]:
    day = f"{text.strip()}-01" if _MONTH.fullmatch(text.strip()) else text.strip()
    with suppress(ValueError):
        moment = datetime.fromisoformat(day)
        if len(day) == 10:
            yield date.fromisoformat(day)
        yield moment
    yield text
