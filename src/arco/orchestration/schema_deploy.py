"""Deployments that would break readers of an asset are refused, unless the break is accepted.

Compared are the columns that code declares, with what it declared before and with what came out
last; and the columns of a query, as far as its text tells them, with what came out last. Contracts
are judged by the same columns (`contract_deploy`). Columns that are not declared are checked in the
output. An asset without an output has no readers: its columns may change.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import msgspec

from arco.catalog.schema_events import WHOLE
from arco.catalog.schema_tables import (
    ACCEPTED_BREAKS,
    SCHEMA_REGISTRY,
    SCHEMA_VERSIONS,
    SchemaRegistryRow,
    SchemaVersionRow,
    accepted_versions,
)
from arco.catalog.tables import COLUMNS
from arco.columns.schema_columns import SchemaColumn, declared_columns, hash_of
from arco.columns.schema_rules import KnownSchema, KnownVersion, SchemaBreak, breaks_of
from arco.errors import Invalid
from arco.orchestration.contract_deploy import ExpectedColumns, check_contracts
from arco.orchestration.declarations import AcceptedBreak
from arco.orchestration.deploying import DeployedChange
from arco.orchestration.inferred_schemas import inferred_columns
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.schema_consumers import column_consumers
from arco.state.snapshot import Snapshot
from arco.state.table import Row, Table
from servo.contract.manifest import Asset, Manifest
from servo.suggest import did_you_mean

LISTED: Final = 20
MANY: Final = 100
"""For more assets, reading the whole table takes less time than single rows."""
ACCEPT: Final = "--accept-breaking"

R = TypeVar("R", bound=Row)
replace = msgspec.structs.replace


class AssetBreak(msgspec.Struct, frozen=True):
    """A break that a deployment would cause."""

    asset: str
    column: str
    """As it is accepted."""
    change: str
    kind: str
    version: int
    consumers: tuple[str, ...]


class SchemaRefused(Invalid):
    """A deployment would break readers. Nothing has changed."""

    def __init__(self, message: str, breaks: Sequence[AssetBreak], *, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.breaks = tuple(breaks)
        self.details = {"breaks": msgspec.to_builtins(self.breaks)}


class BreakAcceptance(msgspec.Struct, frozen=True):
    """Columns whose changes are accepted: `namespace.asset.column`, and the reason."""

    columns: tuple[str, ...] = ()
    reason: str = ""

    def checked(self) -> BreakAcceptance:
        if self.columns and not self.reason.strip():
            raise Invalid(f"{ACCEPT} needs a reason", hint='give --reason "why it may break"')
        if self.reason and not self.columns:
            raise Invalid(
                f"--reason has no effect without {ACCEPT}",
                hint="give namespace.asset.column, or use --message",
            )
        for each in self.columns:
            if len([part for part in each.split(".", 2) if part]) != 3:
                raise Invalid(f"{each!r} is not a column", hint=f"{ACCEPT} namespace.asset.column")
        return self


def check_schemas(
    reader: DeploymentReader,
    manifest: Manifest,
    change: DeployedChange,
    acceptance: BreakAcceptance,
    *,
    restores: bool = False,
) -> tuple[AcceptedBreak, ...]:
    """The accepted breaks, for the event. Raises SchemaRefused for others, and ContractRefused for
    broken contracts.

    `restores`: an older deployment is deployed again.
    """
    assets = {asset.key: asset for asset in manifest.assets}
    ids = {each.key: each.asset_id for each in change.assets}
    rows = _RegistryRows(reader.snapshot, len(ids))
    accepted = tuple(_accepted(reader, assets, ids, acceptance))
    check = _DeployCheck(reader, rows, assets)
    everything = [
        AssetBreak(
            key, each.change.column, str(each), each.change.kind, each.version, each.consumers
        )
        for key, asset_id in sorted(ids.items())
        for each in check.breaks(assets[key], asset_id)
    ]
    columns = frozenset((each.asset, each.column) for each in accepted)
    promised = check_contracts(reader, manifest, change, columns, check.expected, restores=restores)
    breaks = [each for each in everything if (each.asset, each.column) not in columns]
    if breaks:
        raise _refused(manifest, breaks)
    # If an asset's columns are unknown before it runs, its output is checked.
    judged = {
        (key, column)
        for key, column in columns
        if column == WHOLE or assets[key].columns or assets[key].sql
    }
    unneeded = judged - promised - {(each.asset, each.column) for each in everything}
    if unneeded:
        names = ", ".join(sorted(".".join(pair) for pair in unneeded))
        verb = "breaks" if len(unneeded) == 1 else "break"
        raise Invalid(
            f"{ACCEPT}: {names} {verb} nothing in this deployment",
            hint="leave it out: an acceptance holds for one change, not for later ones",
        )
    return accepted


def _refused(manifest: Manifest, breaks: Sequence[AssetBreak]) -> SchemaRefused:
    lines = [f"{each.asset}: {each.change}" for each in breaks[:LISTED]]
    more = [f"and {len(breaks) - LISTED} more"] if len(breaks) > LISTED else []
    number = "a schema change" if len(breaks) == 1 else f"{len(breaks)} schema changes"
    head = f"this deployment of the project {manifest.project} has {number} that may break readers:"
    first = breaks[0]
    return SchemaRefused(
        "\n".join([head, *lines, *more]),
        breaks,
        hint=f"keep the column; or give {ACCEPT} {first.asset}.{first.column} --reason TEXT; "
        'or give the asset another compatibility="…"',
    )


def _accepted(
    reader: DeploymentReader,
    assets: Mapping[str, Asset],
    ids: Mapping[str, str],
    acceptance: BreakAcceptance,
) -> Iterator[AcceptedBreak]:
    """Raises Invalid for a column that there never was."""
    for each in acceptance.columns:
        namespace, name, column = each.split(".", 2)
        key = f"{namespace}.{name}"
        if key not in assets:
            raise Invalid(
                f"{ACCEPT} {each}: the project has no asset {key}",
                hint=did_you_mean(key, assets),
            )
        row = reader.deployed_asset(key)
        asset_id = ids.get(key) or ("" if row is None else row.asset_id)
        rows = reader.snapshot.rows(COLUMNS, asset_id)
        names = {row.name for row in rows} | {c.name for c in assets[key].columns}
        if column not in names and column != WHOLE:
            raise Invalid(
                f"{ACCEPT} {each}: {key} has no column {column}",
                hint=did_you_mean(column, names) or f"see `servo schema show {key}`",
            )
        yield AcceptedBreak(asset=key, asset_id=asset_id, column=column, reason=acceptance.reason)


class _RegistryRows:
    """Rows of assets; of very many assets each table is read once, as a whole."""

    def __init__(self, snapshot: Snapshot, assets: int) -> None:
        self.snapshot = snapshot
        self._many = assets > MANY
        self._whole: dict[str, dict[str, list[Any]]] = {}

    def of(self, table: Table[R], asset_id: str) -> list[R]:
        if not self._many:
            return self.snapshot.rows(table, asset_id)
        if str(table) not in self._whole:
            by_asset: dict[str, list[Any]] = defaultdict(list)
            for row in self.snapshot.all(table):
                by_asset[table.key_of(row)[0]].append(row)
            self._whole[str(table)] = by_asset
        return self._whole[str(table)].get(asset_id, [])

    def registry(self, asset_id: str) -> SchemaRegistryRow | None:
        return next(iter(self.of(SCHEMA_REGISTRY, asset_id)), None)

    def version(self, asset_id: str, number: int) -> SchemaVersionRow | None:
        if not number:
            return None
        if not self._many:
            return self.snapshot.get(SCHEMA_VERSIONS, asset_id, number)
        versions = self.of(SCHEMA_VERSIONS, asset_id)
        return next((row for row in versions if row.version == number), None)


class _DeployCheck:
    def __init__(
        self, reader: DeploymentReader, rows: _RegistryRows, assets: Mapping[str, Asset]
    ) -> None:
        self._reader = reader
        self._rows = rows
        self._assets = assets
        self._input_columns = functools.cache(self._read_input_columns)

    def breaks(self, asset: Asset, asset_id: str) -> Sequence[SchemaBreak]:
        """The breaks that were not accepted before."""
        rule = asset.compatibility
        registry = None if rule.mode == "none" else self._rows.registry(asset_id)
        if registry is None or not registry.current:  # it has no readers
            return ()
        candidates = [*self._candidates(asset, registry)]
        if not candidates:
            return ()
        excused = accepted_versions(self._rows.of(ACCEPTED_BREAKS, asset_id))
        renames = {c.renamed_from: c.name for c in asset.columns if c.renamed_from}

        def judged(consumers: Mapping[str, tuple[str, ...]]) -> list[SchemaBreak]:
            policy = rule.policy if consumers else "all"
            breaks: dict[tuple[str, str], SchemaBreak] = {}
            for version, columns in candidates:
                baseline = KnownSchema(
                    rule=replace(rule, policy=policy),
                    versions=(version,),
                    accepted=excused,
                    consumers=dict(consumers),
                    renames=renames,
                )
                for each in breaks_of(baseline, columns):
                    breaks.setdefault((each.change.kind, each.change.path), each)
            return list(breaks.values())

        if not judged({}):
            return ()
        consumers = column_consumers(self._rows.snapshot, asset.key)
        if rule.policy == "consumers" and not consumers:
            return ()
        return judged(consumers)

    def _candidates(
        self, asset: Asset, registry: SchemaRegistryRow
    ) -> Iterator[tuple[KnownVersion, tuple[SchemaColumn, ...]]]:
        """Earlier versions, each with the columns that would follow."""
        declared = declared_columns(asset.columns)
        inferred = self._inferred(asset)
        changed = bool(declared) and hash_of(declared) != registry.declared_hash
        if not changed and inferred is None:
            return
        for row in self._versions(asset, registry):
            version = KnownVersion(row.version, row.decoded_columns())
            was_declared = row.declared or row.source == "declaration"
            if changed and was_declared:
                yield version, declared
            if row.run_id and inferred is not None:
                yield version, inferred
            elif row.run_id and changed and not was_declared:
                yield version, _expected(asset, declared, version.columns)

    def _versions(self, asset: Asset, registry: SchemaRegistryRow) -> list[SchemaVersionRow]:
        if asset.compatibility.transitive:
            rows = self._rows.of(SCHEMA_VERSIONS, registry.asset_id)
            return sorted(rows, key=lambda row: -row.version)
        numbers = dict.fromkeys((registry.declared, registry.current))
        versions = [self._rows.version(registry.asset_id, number) for number in numbers]
        return [row for row in versions if row is not None]

    def _inferred(self, asset: Asset) -> tuple[SchemaColumn, ...] | None:
        if asset.kind != "sql":
            return None
        return inferred_columns(asset, self._input_columns)

    def expected(self, asset: Asset, asset_id: str) -> ExpectedColumns | None:
        """The columns that an asset will have, by its code."""
        declared = declared_columns(asset.columns)
        if not declared:
            inferred = self._inferred(asset)
            return None if inferred is None else ExpectedColumns(inferred)
        if asset.extra == "refuse":
            return ExpectedColumns(declared)
        registry = self._rows.registry(asset_id)
        if registry is None:
            return ExpectedColumns(declared, frozenset())
        versions = [
            self._rows.version(asset_id, number) for number in (registry.declared, registry.current)
        ]
        before, actual = (() if row is None else row.decoded_columns() for row in versions)
        removed = {each.name for each in before} - {each.name for each in declared}
        remaining = [each for each in actual if each.name not in removed]
        return ExpectedColumns(_expected(asset, declared, remaining), frozenset(removed))

    def _read_input_columns(self, key: str) -> Sequence[SchemaColumn] | None:
        """What an input has, or will have: what came out, what code declares, its dimensions."""
        own = self._assets.get(key)
        row = self._reader.deployed_asset(key)
        registry = None if row is None else self._rows.registry(row.asset_id)
        current = None
        if registry is not None:
            current = self._rows.version(registry.asset_id, registry.current)
        declared = () if own is None else declared_columns(own.columns)
        if own is not None and own.extra == "refuse" and declared:
            columns = {each.name: each for each in declared}
        elif current is not None:
            columns = {each.name: each for each in current.decoded_columns()}
            columns |= {each.name: each for each in declared if each.type}
        else:
            return None
        for dimension in () if own is None else own.partitions:
            columns.setdefault(dimension.name, SchemaColumn(name=dimension.name))
        return list(columns.values())


def _expected(
    asset: Asset, declared: Sequence[SchemaColumn], actual: Sequence[SchemaColumn]
) -> tuple[SchemaColumn, ...]:
    """The expected columns: declared ones, and others of the last output, if allowed.

    Nulls depend on the data: the check of columns counts them.
    """
    columns = [replace(each, nullable=None) for each in declared]
    if asset.extra == "refuse":
        return tuple(columns)
    names = {each.name for each in declared} | {c.renamed_from for c in asset.columns}
    return (*columns, *(each for each in actual if each.name not in names))
