"""The SQL of a project's assets and checks, validated before anything runs.

An asset's columns are known from its query, if that names them; else from `columns=`, which is
all there is only with `extra="refuse"`; else from what was materialized last. A name that Spark
refuses for certain is a problem. One that is only not known, or a text that cannot be read
here, is a note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from arco.lineage.sql_names import (
    UNKNOWN_TABLE,
    Knowledge,
    ResolvedNames,
    TableColumns,
    UnknownName,
    resolve_expression,
    resolve_query,
)
from arco.spark.query import view_name
from arco.spark.query_text import ParsedText, TextProblem, parse_predicate, parse_query
from arco.spark.template import marked_line
from servo.contract.manifest import Asset, Check
from servo.project import Problem
from servo.suggest import did_you_mean

SHOWN: Final = 12


class ColumnLookups(NamedTuple):
    """Where to ask about assets, besides the project's own code."""

    foreign: Callable[[str], Asset | None] = lambda key: None
    """An asset of another project."""
    materialized: Callable[[str], Sequence[str]] = lambda key: ()
    """The columns of an asset's newest version."""


class SqlFindings(NamedTuple):
    problems: list[Problem]
    notes: list[Problem]


def check_sql(assets: Sequence[Asset], lookups: ColumnLookups | None = None) -> SqlFindings:
    """The problems in the SQL of a project's assets, in the order of files and lines."""
    by_key = {asset.key: asset for asset in assets}
    return check_sql_of(by_key, by_key, lookups or ColumnLookups())


def check_sql_of(
    keys: Iterable[str], assets: Mapping[str, Asset], lookups: ColumnLookups
) -> SqlFindings:
    """The same of some assets of a project; others are looked up as these read them."""
    findings = SqlFindings([], [])
    schemas = _KnownColumns(assets, lookups)
    for asset in (assets[key] for key in keys):
        for text, problem in _of_asset(asset, schemas):
            what = f"{problem.message}\n{marked_line(text, problem.start, problem.stop)}"
            entry = Problem.at(asset.code, what, problem.hint, asset.key)
            (findings.problems if problem.certain else findings.notes).append(entry)
        findings.problems.extend(_check_columns(asset, schemas))
    return SqlFindings(sorted(findings.problems), sorted(findings.notes))


def _check_columns(asset: Asset, schemas: _KnownColumns) -> Iterator[Problem]:
    """Columns of checks that a query does not return; `servo` compares declared ones."""
    if asset.kind != "sql" or asset.columns:
        return
    columns = schemas.columns(asset.key)
    for check in asset.checks:
        for name in check.columns if check.phase == "after" else ():
            if columns.knowledge is Knowledge.ALL and not columns.has(name.partition(".")[0]):
                message = f"the check {check.name!r} names the unknown column {name!r}"
                hint = did_you_mean(name, columns.names) or f"there are {_first(columns.names)}"
                yield Problem.at(asset.code, message, hint, asset.key)


def _of_asset(asset: Asset, schemas: _KnownColumns) -> Iterator[tuple[str, TextProblem]]:
    """Problems, each with the text that it is in."""
    if asset.kind == "sql":
        query = schemas.query(asset)
        what = f"the query of {asset.key}"
        for each in _problems(what, query.text, query.names.unknown, schemas.keys()):
            yield asset.sql, each
    for check in asset.checks:
        for columns in schemas.looked_at(check, asset):
            if check.kind == "expression":
                sql = str(check.params["sql"])
                text = parse_predicate(sql)
                unknown = () if text.tree is None else resolve_expression(text.tree, columns)
                what = f"the check {check.name!r} of {asset.key}"
                yield from ((sql, each) for each in _problems(what, text, unknown))


def _problems(
    what: str, text: ParsedText, unknown: Sequence[UnknownName], keys: Iterable[str] = ()
) -> Iterator[TextProblem]:
    if (problem := text.problem) is not None:
        doubt = "" if problem.certain else "may not be valid Spark SQL: "
        hint = problem.hint or ("" if problem.certain else "Spark decides when it runs")
        yield problem._replace(message=f"{what}: {doubt}{problem.message}", hint=hint)
    for name in unknown:
        span = text.place(name.start, name.stop)
        message, hint = _table(name, keys) if name.kind == "table" else _column(name)
        yield TextProblem(f"{what}: {message}", *span, name.certain, hint)


def _table(name: UnknownName, keys: Iterable[str]) -> tuple[str, str]:
    message = f"there is no table {name.name!r}"
    for key in keys:
        if name.name.lower() == key.lower().rpartition(".")[2]:
            return message, f'write {{{{ ref("{key}") }}}}'
    tables = [each for each in name.candidates if not each.startswith("@")]
    hint = did_you_mean(name.name, tables) or (
        'read an asset with {{ ref("namespace.name") }}, and a table of Spark\'s own catalog '
        "with its database, as in default.orders"
    )
    return message, hint


def _column(name: UnknownName) -> tuple[str, str]:
    last = name.name.rpartition(".")[2]
    hint = did_you_mean(last, name.candidates)
    if not hint and name.candidates:
        hint = f"there are {_first(name.candidates)}"
    if name.certain:
        return f"there is no column {name.name!r}", hint
    return f"no column {name.name!r} is declared, or in the newest version of an input", hint


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "")


class _Query(NamedTuple):
    text: ParsedText
    names: ResolvedNames


class _KnownColumns:
    """What is known of the columns of assets; each is looked up once."""

    def __init__(self, assets: Mapping[str, Asset], lookups: ColumnLookups) -> None:
        self._assets = assets
        self._lookups = lookups
        self._columns: dict[str, TableColumns] = {}
        self._queries: dict[str, _Query] = {}

    def keys(self) -> Iterable[str]:
        return self._assets.keys()

    def looked_at(self, check: Check, asset: Asset) -> list[TableColumns]:
        """The columns of each table that a check sees; of one that is not known at least."""
        if check.phase == "after":
            return [self.columns(asset.key)]
        name = check.params.get("input")
        inputs = [i for i in asset.inputs if i.parameter and name in (None, i.parameter)]
        return [self.columns(each.asset) for each in inputs] or [UNKNOWN_TABLE]

    def query(self, asset: Asset) -> _Query:
        if asset.key not in self._queries:
            self._queries[asset.key] = self._resolved(asset)
        return self._queries[asset.key]

    def columns(self, key: str) -> TableColumns:
        if key not in self._columns:
            self._columns[key] = UNKNOWN_TABLE  # while its own query is resolved
            self._columns[key] = self._look_up(key)
        return self._columns[key]

    def _look_up(self, key: str) -> TableColumns:
        asset = self._assets.get(key) or self._lookups.foreign(key)
        if asset is None:
            return _some(self._lookups.materialized(key))
        dimensions = [each.name for each in asset.partitions]  # read as columns, if they are none
        declared = [each.name for each in asset.columns]
        if asset.kind == "sql" and key in self._assets:
            output = self.query(asset).names.output
            if output.knowledge is Knowledge.ALL:
                return TableColumns((*output.names, *dimensions), Knowledge.ALL)
            declared += output.names if output.knowledge is Knowledge.SOME else ()
        names = dict.fromkeys([*declared, *self._lookups.materialized(key)])
        if declared and asset.extra == "refuse" and _holds(asset):
            return TableColumns((*names, *dimensions), Knowledge.ALL)
        return _some([*names, *dimensions] if names else ())

    def _resolved(self, asset: Asset) -> _Query:
        text = parse_query(asset.sql)
        if text.tree is None:
            return _Query(text, ResolvedNames(UNKNOWN_TABLE, ()))
        tables = {
            view_name(each.parameter): self.columns(each.asset)
            for each in asset.inputs
            if each.parameter
        }
        try:
            return _Query(text, resolve_query(text.tree, tables))
        except RecursionError:  # too deeply nested; Spark decides
            return _Query(text, ResolvedNames(UNKNOWN_TABLE, ()))


def _holds(asset: Asset) -> bool:
    """Whether an output that breaks a promise is held."""
    return asset.gating.action("error") not in ("continue", "warn")


def _some(names: Sequence[str]) -> TableColumns:
    return TableColumns(tuple(names), Knowledge.SOME) if names else UNKNOWN_TABLE


def has_sql(asset: Asset) -> bool:
    return asset.kind == "sql" or any(check.kind == "expression" for check in asset.checks)
