"""The first rows of a version. No file is handed out, and personal values are always masked.

What an answer costs is bounded: only the beginning of each column is read, the number of columns
has a maximum, and long values are cut.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from arco.answers.version_data import first_rows
from arco.api.reads.catalog import AssetName, asset_id_of
from arco.api.reads.masking import masked_columns
from arco.api.routes import AtParameters, read
from arco.api.views import View
from arco.execution.states import VersionStatus
from arco.execution.version_lookup import VersionLookup
from arco.plain_json import plain
from arco.security.permissions import Permission
from arco.security.visibility import Visible

MAX_COLUMNS: Final = 100
MAX_CHARS: Final = 1_000
"""Of one value; longer ones are cut, and end with an ellipsis."""
MAX_ITEMS: Final = 100
"""Of a list or map in a value."""


class PreviewParameters(AtParameters, frozen=True, kw_only=True):
    asset: AssetName
    partition: Annotated[
        list[Annotated[str, Meta(max_length=2000)]],
        Meta(max_length=20, description="The partition: date=2026-01-31; the newest by default."),
    ] = []
    version: Annotated[
        str, Meta(min_length=1, max_length=64, description="Its number or id, or `current`.")
    ] = "current"
    limit: Annotated[int, Meta(ge=1, le=100, description="Maximum number of rows.")] = 20
    columns: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=1000)]],
        Meta(max_length=MAX_COLUMNS, description="Only these columns, in this order."),
    ] = []


class PreviewColumn(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    type: str


class PreviewBody(msgspec.Struct, frozen=True, kw_only=True):
    asset: str
    partition: str
    version: int
    materialization_id: str
    status: VersionStatus
    total_rows: int
    columns: list[PreviewColumn]
    """At most 100; name others to see them."""
    rows: list[list[Any]]
    masked: list[str]
    """Columns that are personal or restricted: their values are not shown."""
    more_columns: int
    """Number of columns that are left out."""


def preview_data(view: View, visible: Visible, parameters: PreviewParameters) -> PreviewBody:
    """Show the first rows of a version, with personal and restricted columns masked."""
    asset_id = asset_id_of(view, visible, parameters.asset)
    lookup = VersionLookup(view.snapshot, parameters.asset, asset_id)
    row = lookup.version(parameters.partition, parameters.version)
    hidden = masked_columns(view, asset_id)
    head = first_rows(
        view.store, row, parameters.limit, parameters.columns, hidden, max_columns=MAX_COLUMNS
    )
    values = [column.to_pylist() for column in head.table.columns]
    return PreviewBody(
        asset=parameters.asset,
        partition=row.partition_key,
        version=row.version,
        materialization_id=row.materialization_id,
        status=row.status,
        total_rows=row.rows,
        columns=[PreviewColumn(name=f.name, type=str(f.type)) for f in head.table.schema],
        rows=[[_cut(plain(value)) for value in values] for values in zip(*values, strict=True)],
        masked=head.masked,
        more_columns=head.more_columns,
    )


def _cut(value: Any) -> Any:
    match value:
        case str() if len(value) > MAX_CHARS:
            return f"{value[:MAX_CHARS]}…"
        case list():
            return [_cut(each) for each in value[:MAX_ITEMS]]
        case dict():
            return {_cut(name): _cut(each) for name, each in list(value.items())[:MAX_ITEMS]}
    return value


ROUTES = (read("/assets/{asset}/preview", Permission.DATA_READ, preview_data, live=True),)
