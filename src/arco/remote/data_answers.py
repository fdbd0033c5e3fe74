"""Answers from files that the API does not return itself: it reads and masks them.

Of data: first rows, files, comparisons, checks of contracts, suggestions from samples. Of the log:
the verification of the audit log.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, cast

import msgspec
import pyarrow as pa

from arco.answers.comparing import VersionComparison
from arco.answers.contract_report import ContractReport
from arco.answers.version_data import FileEntry, FileList, FirstRows
from arco.app.workspace import Workspace
from arco.errors import Invalid
from arco.execution.tables import MaterializationRow
from arco.execution.version_diff import ColumnChange, KeyChanges
from arco.orchestration.personal_suggestions import SuggestedColumn
from arco.security.audit_verify import Anchor, AuditReport

if TYPE_CHECKING:
    from arco.remote.client import Client
    from arco.remote.workspace import RemoteWorkspace

MAX_ROWS: Final = 100
MAX_EXAMPLES: Final = 100


class RemoteAsset(NamedTuple):
    """An asset at one generation of a workspace that is reached through the API."""

    workspace: Workspace
    asset: str
    generation: int

    @property
    def client(self) -> Client:
        return _client(self.workspace)


def _client(workspace: Workspace) -> Client:
    return cast("RemoteWorkspace", workspace).client


def _check_revealed(reveal: bool) -> None:
    if reveal:
        raise Invalid("--reveal is not available through the API", hint="leave out --reveal")


def remote_rows(
    remote: RemoteAsset,
    version: MaterializationRow,
    limit: int,
    columns: Sequence[str],
    *,
    reveal: bool,
) -> FirstRows:
    """As `first_rows` gives them, with values as JSON has them."""
    _check_revealed(reveal)
    if limit > MAX_ROWS:
        raise Invalid(f"the API returns at most {MAX_ROWS} rows", hint=f"give --limit {MAX_ROWS}")
    names = [name.strip() for text in columns for name in text.split(",")]
    answer = remote.client.preview_data(
        remote.asset, version=version.materialization_id, limit=limit, columns=names
    )
    table = arrow_table(answer["columns"], answer["rows"])
    return FirstRows(table, answer["masked"], 0, answer["more_columns"])


def arrow_table(columns: Sequence[Mapping[str, object]], rows: Sequence[Sequence[Any]]) -> pa.Table:
    """JSON values as Arrow columns: numbers and dates get their types; others are inferred."""
    values = list(zip(*rows, strict=True)) if rows else [() for _ in columns]
    arrays = [_array(each, str(of["type"])) for each, of in zip(values, columns, strict=True)]
    return pa.Table.from_arrays(arrays, names=[str(each["name"]) for each in columns])


_DECIMAL = re.compile(r"decimal(128|256)\((\d+), (-?\d+)\)")


def _array(values: Sequence[Any], kind: str) -> pa.Array:
    if match := _DECIMAL.fullmatch(kind):
        make = pa.decimal128 if match[1] == "128" else pa.decimal256
        decimals = [None if value is None else Decimal(str(value)) for value in values]
        return pa.array(decimals, make(int(match[2]), int(match[3])))
    try:
        inferred = pa.array(values)
    except pa.ArrowException:  # maps and lists whose values are not all alike in JSON
        return pa.array([None if v is None else msgspec.json.encode(v).decode() for v in values])
    try:
        return inferred.cast(pa.type_for_alias(kind))
    except (pa.ArrowException, ValueError):  # a type that has no short name
        return inferred


def remote_files(remote: RemoteAsset, version: MaterializationRow, *, reveal: bool) -> FileList:
    _check_revealed(reveal)
    answer = remote.client.list_version_files(
        remote.asset, version.materialization_id, generation=remote.generation
    )
    return FileList(msgspec.convert(answer["files"], list[FileEntry]), answer["total"])


def remote_comparison(
    remote: RemoteAsset,
    versions: tuple[MaterializationRow, MaterializationRow],
    *,
    key: Sequence[str],
    examples: int,
    engine: Literal["auto", "duckdb", "spark"],
    reveal: bool,
) -> VersionComparison:
    _check_revealed(reveal)
    if engine == "spark":
        raise Invalid("--engine is not available through the API", hint="leave out --engine")
    if examples > MAX_EXAMPLES:
        raise Invalid(
            f"the API returns at most {MAX_EXAMPLES} examples",
            hint=f"give --examples {MAX_EXAMPLES}",
        )
    before, after = versions
    answer = remote.client.compare_versions(
        remote.asset,
        before=before.materialization_id,
        after=after.materialization_id,
        key=[name.strip() for text in key for name in text.split(",")],
        examples=examples,
        generation=remote.generation,
    )
    keys = answer["keys"]
    return VersionComparison(
        before,
        after,
        msgspec.convert(answer["columns"], list[ColumnChange]),
        None if keys is None else msgspec.convert(keys, KeyChanges),
    )


def remote_contract_report(
    remote: RemoteAsset, partition: Sequence[str], version: str, *, is_newest: bool
) -> ContractReport:
    """`is_newest`: as of now, not of the generation's time."""
    answer = remote.client.check_contract(
        remote.asset,
        version=version or None,
        partition=partition,
        generation=None if is_newest else remote.generation,
    )
    return msgspec.convert(answer, ContractReport)


def remote_suggestions(remote: RemoteAsset) -> list[SuggestedColumn]:
    """From names, types and values."""
    answer = remote.client.suggest_personal_columns(
        remote.asset, samples=True, generation=remote.generation
    )
    return msgspec.convert(answer["suggestions"], list[SuggestedColumn])


def remote_audit_report(
    workspace: Workspace, generation: int, anchor: Anchor | None
) -> AuditReport:
    answer = _client(workspace).verify_audit_log(
        generation=generation, head=None if anchor is None else str(anchor)
    )
    return msgspec.convert(answer["report"], AuditReport)
