"""Finds two versions of an asset's schema, and compares them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from arco.catalog.column_identity import renames_between
from arco.catalog.schema_reader import AssetSchema
from arco.catalog.schema_tables import SchemaVersionRow
from arco.columns.compatibility import SchemaChange, compare
from arco.errors import Invalid, NotFound


class SchemaDifference(NamedTuple):
    before: SchemaVersionRow
    after: SchemaVersionRow
    changes: list[SchemaChange]


def schema_version(schema: AssetSchema, key: str, text: str) -> SchemaVersionRow:
    """A version by its number, or `current`, or `declared`."""
    words = {"current": schema.registry.current, "declared": schema.registry.declared}
    if text not in words and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise Invalid(
            f"{text!r} is not a version of a schema", hint="give a number, `current` or `declared`"
        )
    number = words[text] if text in words else int(text)
    for row in schema.versions:
        if row.version == number:
            return row
    numbers = ", ".join(str(row.version) for row in schema.versions)
    what = f"{text} version" if text in words else f"version {text}"
    raise NotFound(f"the schema of {key} has no {what}", hint=f"versions: {numbers}")


def schema_difference(
    schema: AssetSchema, key: str, old: str = "", new: str = ""
) -> SchemaDifference:
    """Between two versions: the newest and the one before it, unless they are given."""
    after = schema_version(schema, key, new or str(schema.versions[0].version))
    earlier = [row for row in schema.versions if row.version < after.version]
    if not old and not earlier:
        raise Invalid(f"the schema of {key} has one version", hint="see `servo schema show`")
    before = schema_version(schema, key, old) if old else earlier[0]
    columns = before.decoded_columns(), after.decoded_columns()
    changes = [
        _with_rename(change, schema)
        for change in compare(*columns, "full", renames_between(*columns)).changes
    ]
    return SchemaDifference(before, after, changes)


def _with_rename(change: SchemaChange, schema: AssetSchema) -> SchemaChange:
    """With the kind of the rename."""
    kinds = {(each.old_name, each.new_name): each.change_type for each in schema.renames}
    if change.kind != "renamed":
        return change
    rename = kinds.get((change.before, change.after), change.rename)
    return msgspec.structs.replace(change, rename=rename)
