"""Options that several catalog commands share, and their parsing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from arco.cli import deferral
from arco.cli.options import OptionGroup, argument, flag, option

if deferral.LOADED:
    from arco.catalog.events import Column
    from arco.catalog.tables import AssetRow, NamespaceRow
    from arco.cli import render
    from arco.cli.session import Session
    from arco.errors import Invalid
    from arco.state.tier1 import Acknowledged


WRITES = ("actor", "key")

Description = Annotated[str | None, option("TEXT", "Description.")]
Owners = Annotated[list[str] | None, option("NAME", "A person or team. Repeatable.", "--owner")]
Tags = Annotated[list[str] | None, option("K=V", "A tag. Repeatable.", "--tag")]
Properties = Annotated[list[str] | None, option("K=V", "A property. Repeatable.", "--property")]
Expected = Annotated[
    int | None,
    option(
        "N",
        "Refuse if the row version has changed (see `show`).",
        "--expected-version",
        min=0,
    ),
]
ExpectedColumn = Annotated[
    int | None,
    option(
        "N",
        "Refuse if the column's row version has changed (see `servo catalog show`).",
        "--expected-version",
        min=0,
    ),
]
AssetArgument = Annotated[str, argument("NAMESPACE.NAME", "The asset.")]


class ClearableField(StrEnum):
    owners = "owners"
    tags = "tags"
    properties = "properties"


Clear = Annotated[list[ClearableField] | None, flag("--clear", "Clear this field. Repeatable.")]


def entries(texts: Sequence[str] | None, option: str) -> dict[str, str] | None:
    """`k=v` pairs; None if there are none."""
    if not texts:
        return None
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise Invalid(
                f"{option} {text!r} is not k=v", hint=f"write {option} {key or 'k'}=value"
            )
        if pairs.setdefault(key, value) != value:
            raise Invalid(f"{option} {key} is given twice", hint="give one value for each key")
    return pairs


@dataclass(frozen=True)
class DetailOptions(OptionGroup):
    description: Description = None
    owner: Owners = None
    tag: Tags = None
    property: Properties = None

    def changes(self, clear: Sequence[ClearableField] | None = None) -> dict[str, Any]:
        """The fields to write; None leaves a field as it is."""
        changes: dict[str, Any] = {
            "description": self.description,
            "owners": self.owner or None,
            "tags": entries(self.tag, "--tag"),
            "properties": entries(self.property, "--property"),
        }
        for field in clear or ():
            if changes[field]:
                hint = "give only one of the two"
                raise Invalid(f"{field} are both given and cleared", hint=hint)
            changes[field] = [] if field is ClearableField.owners else {}
        return changes


def column(text: str) -> Column:
    """`name:type` or `name:type:not_null`; a type may hold colons, as in `struct<a:int>`."""
    name, colon, rest = text.partition(":")
    kind = rest.removesuffix(":not_null")
    if not name or not colon or not kind or kind == "not_null":
        raise Invalid(f"{text!r} is not a column", hint="write name:type or name:type:not_null")
    return Column(name=name, type=kind, nullable=kind == rest)


def something(**changes: object) -> None:
    """Refuse an update that changes nothing."""
    if all(value is None for value in changes.values()):
        repeatable = {"owners": "owner", "tags": "tag", "properties": "property"}
        options = ", ".join(f"--{repeatable.get(name, name)}" for name in changes)
        raise Invalid("nothing to change", hint=f"give one of {options}")


def described(row: AssetRow | NamespaceRow) -> dict[str, object]:
    return {
        "description": row.description or None,
        "owners": ", ".join(row.owners) or None,
        "tags": render.pairs(row.tags),
        "properties": render.pairs(row.properties),
    }


def authorship(row: AssetRow | NamespaceRow, version: int) -> dict[str, object]:
    return {
        "version": version,
        "created": f"{render.cell(row.created_at)} by {row.created_by or '–'}",
        "updated": f"{render.cell(row.updated_at)} by {row.updated_by or '–'}",
    }


def acknowledge(session: Session, outcome: Acknowledged, text: str, **more: object) -> None:
    """Print what a command did, and the generation that shows it."""
    if session.json:
        render.document(render.plain(outcome) | more)
    elif outcome.replayed:
        render.say(
            f"{text}: already done with this idempotency key, in generation {outcome.generation}"
        )
    else:
        render.say(f"{text} in generation {outcome.generation}")
