"""Spark's names for types, as people write them, in one spelling."""

from __future__ import annotations

import pyarrow as pa

from arco.columns import types
from arco.columns.arrow import file_fields, from_arrow
from arco.columns.type_text import parse
from arco.worker.checks.subject import File


def canonical(text: str) -> str | None:
    """`Struct<a: integer>` as `struct<a:int>`; None if it is no type."""
    type = parse(text)
    return None if type is None else types.text(type)


def text_of(type: pa.DataType) -> str:
    """What Spark calls it; where Spark has nothing like it, what Arrow does."""
    try:
        return types.text(from_arrow(type))
    except ValueError:
        return str(type)


def stored(file: File) -> list[tuple[str, str]]:
    """The columns that a file has, and their types as Spark reads them."""
    fields = file_fields(file.footer.metadata)
    texts = [(each["name"], types.text(each["type"])) for each in fields]
    return [(name, canonical(text) or text) for name, text in texts]
