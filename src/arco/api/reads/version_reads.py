"""What is in versions: their files, and how two of them differ. Personal values are masked."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from arco.answers.comparing import compare
from arco.answers.version_data import FileEntry, files_of
from arco.api.reads.catalog import AssetName, asset_id_of
from arco.api.reads.masking import masked_columns
from arco.api.routes import AtParameters, read
from arco.api.views import View
from arco.errors import Invalid, NotFound
from arco.execution.reader import ExecutionReader
from arco.execution.tables import MaterializationRow
from arco.execution.version_diff import ColumnChange, KeyChanges
from arco.execution.version_lookup import VersionLookup
from arco.security.permissions import Permission
from arco.security.visibility import Visible

VersionRef = Annotated[str, Meta(min_length=1, max_length=64)]


class FilesParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    materialization_id: Annotated[str, Meta(min_length=1, max_length=64)]


class FilesBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    partition: str
    version: int
    materialization_id: str
    total: int
    """How many files there are; at most 1,000 are listed."""
    files: list[FileEntry]
    """Of the first 10 with rows and statistics of columns."""


def list_version_files(view: View, visible: Visible, parameters: FilesParameters) -> FilesBody:
    """List the files of a version; for the first 10 also rows and column statistics."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    row = ExecutionReader(view.snapshot).materialization(asset_id, parameters.materialization_id)
    if row is None:
        raise NotFound(f"{parameters.asset} has no version {parameters.materialization_id}")
    listed = files_of(view.store, row, masked_columns(view, asset_id))
    return FilesBody(
        asset=parameters.asset,
        partition=row.partition_key,
        version=row.version,
        materialization_id=row.materialization_id,
        total=listed.total,
        files=listed.files,
    )


class CompareParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    before: Annotated[VersionRef, Meta(description="The first version: its number or id.")]
    after: Annotated[
        VersionRef, Meta(description="The second version: number, id or `current`.")
    ] = "current"
    partition: Annotated[
        list[Annotated[str, Meta(max_length=2000)]],
        Meta(max_length=20, description="The partition: date=2026-01-31."),
    ] = []
    key: Annotated[
        list[Annotated[str, Meta(max_length=1000)]],
        Meta(max_length=20, description="Match rows by these columns, which must be unique."),
    ] = []
    examples: Annotated[
        int, Meta(ge=0, le=100, description="Maximum number of rows of each kind of change.")
    ] = 5


class ComparedVersion(msgspec.Struct, frozen=True, kw_only=True):
    materialization_id: str
    version: int
    status: str
    rows: int
    bytes: int
    schema_hash: str
    run_id: str


class ComparisonBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    partition: str
    before: ComparedVersion
    after: ComparedVersion
    schema_changed: bool
    columns: list[ColumnChange]
    keys: KeyChanges | None
    """Null unless a key was given."""


def compare_versions(view: View, visible: Visible, parameters: CompareParameters) -> ComparisonBody:
    """Compare two versions of a partition: their columns, rows and statistics.

    With `key` also row by row: what was added, removed and changed, with examples.
    """
    asset_id = asset_id_of(view, visible, parameters.asset)
    lookup = VersionLookup(view.snapshot, parameters.asset, asset_id)
    pair = [
        lookup.version(parameters.partition, text) for text in (parameters.before, parameters.after)
    ]
    before, after = pair
    if before.partition_key != after.partition_key:
        raise Invalid(
            f"{lookup.name(before.partition_key)} and {lookup.name(after.partition_key)} are "
            "different partitions",
            hint="compare versions of one partition",
        )
    comparison = compare(
        view.store,
        view.snapshot,
        parameters.asset,
        (before, after),
        key=parameters.key,
        examples=parameters.examples,
        hidden=masked_columns(view, asset_id),
    )
    return ComparisonBody(
        asset=parameters.asset,
        partition=before.partition_key,
        before=_compared(before),
        after=_compared(after),
        schema_changed=before.schema_hash != after.schema_hash,
        columns=comparison.columns,
        keys=comparison.keys,
    )


def _compared(row: MaterializationRow) -> ComparedVersion:
    names = ComparedVersion.__struct_fields__
    return ComparedVersion(**{name: getattr(row, name) for name in names})


_DATA = Permission.DATA_READ
ROUTES: tuple[Any, ...] = (
    read("/assets/{asset}/compare", _DATA, compare_versions, live=True),
    read(
        "/assets/{asset}/versions/{materialization_id}/files", _DATA, list_version_files, live=True
    ),
)
