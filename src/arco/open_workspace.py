"""A workspace from Python: tables as Arrow, pandas, polars or Spark, SQL, lineage, explanations.

    import arco

    ws = arco.open("s3://bucket/lake")
    ws.table("marts.daily_revenue", partition={"date": date(2026, 1, 31)}).pandas()
    ws.sql("select region, sum(amount) from shop.orders group by all").arrow()
    ws.search("custmer email tag:tier=gold")
    ws.lineage("marts.daily_revenue", "total")
    ws.explain("marts.daily_revenue")

Nothing here can change a workspace.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Final, Literal

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from arco.answers.html import as_table
from arco.answers.partition_names import PartitionCheck
from arco.answers.shapes import AssetExplanation, RunExplanation, place
from arco.answers.version_data import personal_columns
from arco.app.workspace import Workspace
from arco.cli.session import require_directory
from arco.clock import SystemClock
from arco.config import ConfigSource, resolve
from arco.dispatch.versions import ref_of
from arco.errors import Invalid, NotFound
from arco.execution.reader import ExecutionReader
from arco.execution.states import VersionStatus
from arco.execution.tables import MaterializationRow, PartitionRow
from arco.execution.version_lookup import VersionLookup
from arco.lineage.reader import DEPTH
from arco.notebook import SHOWN_ROWS, DataTable, LineageLinks, SearchHits
from arco.orchestration.asset_columns import check_column
from arco.orchestration.catalog_names import lineage_reader
from arco.orchestration.projects import DeploymentReader
from arco.search.reader import LIMIT, SearchReader
from arco.state.snapshot import AsOf, At, Generation, Snapshot
from arco.times import parse_time, utc
from servo.contract.partition import PartitionKey, Scalar
from servo.contract.task import InputRef
from servo.suggest import did_you_mean

Partition = str | Mapping[str, Scalar]

LOCK_DOWN: Final = (
    "SET python_enable_replacements=false",
    "SET allow_community_extensions=false",
    "SET enable_external_access=false",
    "SET lock_configuration=true",
)
"""A query comes from whoever wrote it: it reads the tables that it names, and nothing else of
the machine. The last one is last: after it nothing can be set."""


def open_workspace(
    store: str | None,
    tenant: str | None,
    workspace: str | None,
    generation: int | None,
    as_of: datetime | str | None,
) -> OpenWorkspace:
    config = resolve(ConfigSource(store, tenant, workspace), os.environ, Path.cwd())
    require_directory(config)
    if generation is not None and as_of is not None:
        raise Invalid("generation and as_of are mutually exclusive", hint="give one of them")
    at: At | None = None
    if generation is not None:
        at = Generation(generation)
    elif isinstance(as_of, datetime):
        at = AsOf(utc(as_of))
    elif as_of is not None:
        at = AsOf(parse_time(as_of, SystemClock().now()))
    opened = Workspace.open(config.store, config.tenant, config.workspace, source="arco")
    return OpenWorkspace(opened, at)


class OpenWorkspace:
    """What `arco.open` returns."""

    def __init__(self, workspace: Workspace, at: At | None = None) -> None:
        self._workspace = workspace
        self._at = at

    @property
    def generation(self) -> int:
        """The one that is read: the newest, unless another was asked for."""
        return self._snapshot().generation

    def table(
        self,
        asset: str,
        *,
        partition: Partition | None = None,
        version: int | str | None = None,
        columns: Sequence[str] = (),
        reveal: bool = False,
    ) -> DataTable:
        """The data of an asset: of all its partitions, or of one, `"date=2026-01-31"`.

        By default the current versions. `version` is the number of a version of the partition,
        or an id, or the beginning of one. Values of personal and restricted columns are masked,
        unless `reveal`. No data is read before the result is asked for its rows.
        """
        snapshot = self._snapshot()
        asset_id = DeploymentReader(snapshot).asset_id(asset)
        if partition is not None:
            lookup = VersionLookup(snapshot, asset, asset_id)
            key = lookup.partition(_partition_texts(partition), may_be_absent=True)
            now = self._workspace.clock.now()
            check = PartitionCheck(snapshot, self._workspace.library, now)
            check.checked(asset, asset_id, key)
        rows = _versions(snapshot, asset, asset_id, partition, version)
        return DataTable(
            asset if partition is None else place(asset, rows[0].partition_key),
            self._workspace.store,
            InputRef(asset=asset, materializations=tuple(map(ref_of, rows))),
            tuple(columns),
            hidden=() if reveal else self._hidden(snapshot, asset_id),
        )

    def sql(self, query: str, *, reveal: bool = False) -> DataTable:
        """The result of a query, by DuckDB in this process.

        `namespace.name` is the data of an asset, in its current versions; a table of the
        metadata, such as `execution.partitions`, where no asset has that name. Each table that
        the query names is read whole. It is one SELECT, which changes nothing and reads nothing
        else: no file, address or variable of this process. Personal and restricted columns are
        left out, unless `reveal`.
        """
        snapshot = self._snapshot()
        left_out: list[str] = []
        connection = duckdb.connect()
        try:
            _check_select(connection.extract_statements(query))
            for schema, name in _tables_of(query):
                rows = self._named(snapshot, schema, name, reveal, left_out)
                _register(connection, schema, name, rows)
            for statement in LOCK_DOWN:
                connection.execute(statement)
            result = connection.sql(query).to_arrow_table()
        except duckdb.Error as error:
            hint = "use DuckDB SQL"
            if left_out:
                hint = f"personal columns are left out: {', '.join(left_out)}; see reveal=True"
            raise Invalid(f"the query failed: {error}", hint=hint) from None
        finally:
            connection.close()
        return DataTable("query", self._workspace.store, loaded=result)

    def search(self, query: str, *, limit: int = LIMIT) -> SearchHits:
        """The assets that match a query, the best first: `"custmer email tag:tier=gold"`."""
        return SearchHits(SearchReader(self._snapshot()).search(query, limit=limit))

    def lineage(
        self,
        asset: str,
        column: str = "",
        *,
        direction: Literal["up", "down"] = "up",
        depth: int = DEPTH,
    ) -> LineageLinks:
        """Where an asset or a column comes from (`up`), or what uses it (`down`)."""
        snapshot = self._snapshot()
        if direction not in ("up", "down"):
            raise Invalid(f"{direction!r} is not a direction", hint='give "up" or "down"')
        DeploymentReader(snapshot).asset_id(asset)
        if column:
            check_column(snapshot, asset, column)
        reader = lineage_reader(snapshot)
        walk = reader.upstream if direction == "up" else reader.downstream
        return LineageLinks(walk(asset, column, depth=depth))

    def explain(
        self, subject: str, partition: Partition | None = None
    ) -> AssetExplanation | RunExplanation:
        """Why an asset, or a run by its id, is as it is: the chain of causes to the first one."""
        return self._workspace.answers(self._at).explain(subject, _partition_texts(partition))

    def __repr__(self) -> str:
        return f"<workspace {self._workspace.tenant}/{self._workspace.name}>"

    def _repr_html_(self) -> str:
        rows = DeploymentReader(self._snapshot()).deployed_assets()
        active = sorted(key for key, row in rows.items() if row.active)
        named = [[key] for key in active[:SHOWN_ROWS]]
        more = f"<p>{len(active):,} assets</p>"
        return f"<b>{escape(repr(self))}</b>{as_table(['asset'], named)}{more}"

    def _snapshot(self) -> Snapshot:
        return self._workspace.read.snapshot(self._at)

    def _hidden(self, snapshot: Snapshot, asset_id: str) -> frozenset[str]:
        """What is personal then or now."""
        newest = [] if self._at is None else [self._workspace.read.snapshot()]
        return personal_columns(asset_id, snapshot, *newest)

    def _named(
        self, snapshot: Snapshot, schema: str, name: str, reveal: bool, left_out: list[str]
    ) -> pa.Table:
        key = f"{schema}.{name}"
        if DeploymentReader(snapshot).deployed_asset(key) is not None:
            table = self.table(key, reveal=reveal)
            left_out += [f"{key}.{column}" for column in table.masked]
            rows = table.arrow().drop_columns(list(table.masked))
            if not rows.num_columns:
                raise Invalid(f"all columns of {key} are personal", hint="see reveal=True")
            return rows
        tables = {str(table): table for table in self._workspace.tables}
        if key in tables:
            rows = snapshot.scan(tables[key])
            return rows.select(list(tables[key].columns))
        assets = DeploymentReader(snapshot).deployed_assets()
        hint = did_you_mean(key, [*assets, *tables]) or "write namespace.name"
        raise NotFound(f"there is no asset or table {key}", hint=hint)


def _versions(
    snapshot: Snapshot,
    asset: str,
    asset_id: str,
    partition: Partition | None,
    version: int | str | None,
) -> Sequence[PartitionRow | MaterializationRow]:
    if partition is None and version is None:
        rows = ExecutionReader(snapshot).partitions(asset_id)
        if not rows:
            raise NotFound(f"{asset} has no data yet", hint=f"servo run {asset}")
        return rows
    lookup = VersionLookup(snapshot, asset, asset_id)
    if partition is None and isinstance(version, int):
        row = lookup.numbered(None, version)
    else:
        row = lookup.version(_partition_texts(partition), None if version is None else str(version))
    if row.status == VersionStatus.EXPIRED:
        raise NotFound(
            f"version {version} of {asset} has expired: {row.reason}",
            hint=f"see `servo partitions versions {asset}`",
        )
    return [row]


def _partition_texts(partition: Partition | None) -> list[str]:
    if partition is None:
        return []
    return [partition if isinstance(partition, str) else str(PartitionKey(partition))]


def _check_select(statements: Sequence[duckdb.Statement]) -> None:
    if len(statements) != 1:
        raise Invalid(f"expected one statement, found {len(statements)}", hint="write one SELECT")
    kind = statements[0].type
    if kind != duckdb.StatementType.SELECT:
        raise Invalid(f"{kind.name} is not allowed", hint="a workspace is read-only: use SELECT")


def _tables_of(query: str) -> list[tuple[str, str]]:
    """The tables that a query names with a schema, each once."""
    try:
        trees = sqlglot.parse(query, read="duckdb")
    except sqlglot.errors.SqlglotError as error:
        raise Invalid(f"the query cannot be read: {error}", hint="use DuckDB SQL") from None
    named = [
        (table.db, table.name)
        for tree in trees
        if tree is not None
        for table in tree.find_all(exp.Table)
        if table.db and not table.catalog
    ]
    return list(dict.fromkeys(named))


def _register(
    connection: duckdb.DuckDBPyConnection, schema: str, name: str, rows: pa.Table
) -> None:
    quoted = [text.replace('"', '""') for text in (schema, name, f"{schema}.{name}")]
    connection.register(f"{schema}.{name}", rows)
    connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{quoted[0]}"')
    connection.execute(
        f'CREATE VIEW "{quoted[0]}"."{quoted[1]}" AS SELECT * FROM main."{quoted[2]}"'
    )
