"""Metadata of the rows in a server's answer: in their Arrow schema."""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

import msgspec
import pyarrow as pa

_NAME: Final = b"arco"


class RowsDetails(msgspec.Struct, frozen=True, kw_only=True):
    next: list[str | int] = []
    """There are more rows: ask for those after this key."""
    rest_before: datetime | None = None
    """Of hot rows: rows in history have a time before this; null if there are none."""
    days: list[date] = []

    def on(self, rows: pa.Table) -> pa.Table:
        return rows.replace_schema_metadata({_NAME: msgspec.json.encode(self)})

    @classmethod
    def of(cls, rows: pa.Table) -> RowsDetails:
        metadata = rows.schema.metadata or {}
        return msgspec.json.decode(metadata.get(_NAME, b"{}"), type=cls)
