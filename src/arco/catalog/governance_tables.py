"""The tables of governance: statements, and the glossary."""

from __future__ import annotations

from datetime import datetime

from arco.state.table import LOOKED_UP_GROUP, Row, Table


class AssetStatementRow(Row, frozen=True):
    """The statement of one source about an asset and its columns (`governance.Statement`)."""

    asset_id: str
    source: str
    """code, people or dbt."""
    values: dict[str, str]
    """By path: `description`, `tags:tier`, `col_…/pii`."""
    positions: dict[str, int]
    """By path: the position of the event that set the value."""
    authors: dict[int, str]
    """By position."""
    times: dict[int, datetime]


class NamespaceStatementRow(Row, frozen=True):
    namespace: str
    source: str
    values: dict[str, str]
    positions: dict[str, int]
    authors: dict[int, str]
    times: dict[int, datetime]


class DeprecationRow(Row, frozen=True):
    """A deprecated asset. There are few: readers read all of them."""

    asset_id: str
    namespace: str
    name: str
    message: str


class NamespaceDefaultsRow(Row, frozen=True):
    """Of namespaces that have owners or tags."""

    namespace: str
    owners: list[str]
    tags: dict[str, str]


class TermRow(Row, frozen=True):
    term: str
    description: str
    owners: list[str]
    links: dict[str, str]
    created_at: datetime
    created_by: str
    updated_at: datetime
    updated_by: str


class TermUseRow(Row, frozen=True):
    term: str
    namespace: str
    """Empty if an asset or a column uses it."""
    asset_id: str
    column_id: str


ASSET_STATEMENTS = Table(
    "catalog",
    "asset_statements",
    AssetStatementRow,
    key=["asset_id", "source"],
    group_rows=LOOKED_UP_GROUP,
)
NAMESPACE_STATEMENTS = Table(
    "catalog", "namespace_statements", NamespaceStatementRow, key=["namespace", "source"]
)
DEPRECATIONS = Table("catalog", "deprecations", DeprecationRow, key=["asset_id"])
NAMESPACE_DEFAULTS = Table("catalog", "namespace_defaults", NamespaceDefaultsRow, key=["namespace"])
TERMS = Table("catalog", "terms", TermRow, key=["term"])
TERM_USES = Table(
    "catalog", "term_uses", TermUseRow, key=["term", "namespace", "asset_id", "column_id"]
)
