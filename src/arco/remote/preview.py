"""The first rows of a version, from the API: masked there, and without its files."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from arco.answers.version_data import FirstRows
from arco.errors import Invalid
from arco.execution.tables import MaterializationRow
from arco.remote.client import Client

MAX_ROWS = 100


def remote_rows(
    client: Client,
    asset: str,
    version: MaterializationRow,
    limit: int,
    columns: Sequence[str],
    *,
    reveal: bool,
) -> FirstRows:
    """As `first_rows` gives them, with values as JSON has them."""
    if reveal:
        raise Invalid("the API shows no personal values", hint="leave out --reveal")
    if limit > MAX_ROWS:
        raise Invalid(f"the API shows at most {MAX_ROWS} rows", hint=f"give --limit {MAX_ROWS}")
    names = [name.strip() for text in columns for name in text.split(",")]
    answer = client.preview_data(
        asset, version=version.materialization_id, limit=limit, columns=names
    )
    names = [each["name"] for each in answer["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in answer["rows"]]
    table = pa.Table.from_pylist(rows, schema=None) if rows else pa.table({n: [] for n in names})
    return FirstRows(table, answer["masked"], 0, answer["more_columns"])
