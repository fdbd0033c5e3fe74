"""Search's tables.

A document has all the texts of an asset that a search looks at. Each field is the list of its
*entries* (names of columns, owners, tags …) as one text, in which `"\\n "` is before and `" \\n"`
after every entry. So one search in the text tells a whole entry (`"\\n order_id \\n"`), the
start of one (`"\\n order"`) and, once punctuation is blank, a word (`" id "`) apart.

Documents are sharded by namespace: who searches one reads nothing of the others. Their row
groups are small, for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from arco.execution.states import PartitionStatus
from arco.execution.tables import SPREAD
from arco.state.table import Row, Table

GROUP_ROWS = 1_024
SEPARATOR = " \n "


class DocumentRow(Row, frozen=True):
    namespace: str
    asset_id: str
    name: str
    kinds: str
    """The asset's kind in the catalog, and that of its code."""
    columns: str
    owners: str
    tags: str
    """`key=value`."""
    terms: str
    previous_names: str
    description: str
    column_descriptions: str
    code: str
    pii: str
    """Names of columns that code or people have said to hold personal data."""
    active: bool


class FailingRow(Row, frozen=True):
    """A partition whose last attempt has no good output; there is no row for any other."""

    asset_id: str
    partition_key: str
    status: PartitionStatus
    run_id: str
    since: datetime


DOCUMENTS = Table(
    "search", "documents", DocumentRow, key=["namespace", "asset_id"], group_rows=GROUP_ROWS
)
FAILING = Table("search", "failing", FailingRow, key=["asset_id", "partition_key"], spread=SPREAD)


def joined(entries: Iterable[str]) -> str:
    """Entries as one text. Blanks and line ends within an entry become single blanks."""
    texts = [" ".join(entry.split()) for entry in entries]
    texts = [text for text in texts if text]
    return f"\n {SEPARATOR.join(texts)} \n" if texts else ""


def entries(text: str) -> list[str]:
    return text[2:-2].split(SEPARATOR) if text else []
