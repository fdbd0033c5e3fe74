"""Which names the catalog accepts.

Commands check them before they append, and the fold checks them again: an event
may come from any program that can write to the inbox.
"""

from __future__ import annotations

from collections.abc import Iterable

from arco.errors import Invalid
from servo.contract.keys import AssetKey

MAX_TEXT = 4_096


def check_column_name(name: str) -> None:
    """Columns are called whatever their engine allows, within limits."""
    if not name:
        raise Invalid("a column has no name")
    if len(name) > MAX_TEXT:
        raise Invalid(f"a column's name has {len(name)} characters; the limit is {MAX_TEXT}")
    if "\0" in name:
        raise Invalid(f"column {name!r} has a NUL character in its name")


def check_asset(namespace: str, name: str, columns: Iterable[str] = ()) -> None:
    AssetKey(namespace, name)  # checks both
    for column in columns:
        check_column_name(column)
