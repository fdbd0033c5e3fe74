"""The differences between two schemas, and which of them break readers.

    change           backward   forward
    added            no         no          a column that may be null
    added_required   yes        no          old files have no values for it
    removed          yes        yes
    renamed          yes        yes         readers know columns by their names
    widened          no         yes         int to bigint: the new type holds every old value
    narrowed         yes        no          bigint to int
    retyped          yes        yes         text to number
    made_nullable    yes        yes         readers do not expect nulls
    made_required    yes        no          old files may have nulls
    moved            no         no          columns are found by name

*backward*: the new schema reads old files, and readers of the old columns still work. *forward*:
the old schema reads new files. *full*: both. Fields of structs, elements of arrays, keys and values
of maps are compared like columns, at any depth; fields inside of types have no ids, so a renamed
field is one that was removed and one that was added.

A rename is *governed* when code or a command states it. It is *inferred* when the Parquet field id
is the same, or when one column was removed, one was added, and both have the same type and place.
The place does not count for a column in `renames`, even if it maps to its own name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from arco.columns.schema_columns import SchemaColumn
from arco.columns.types import DECIMAL, WHOLE_NUMBERS, ColumnType, SparkField, text
from arco.columns.widening import widened
from servo.contract.manifest import CompatibilityMode

ChangeKind = Literal[
    "added",
    "added_required",
    "removed",
    "renamed",
    "widened",
    "narrowed",
    "retyped",
    "made_nullable",
    "made_required",
    "moved",
]
RenameKind = Literal["GovernedRename", "InferredRename"]
BACKWARD: Final[frozenset[ChangeKind]] = frozenset(
    {
        "added_required",
        "removed",
        "renamed",
        "narrowed",
        "retyped",
        "made_nullable",
        "made_required",
    }
)
FORWARD: Final[frozenset[ChangeKind]] = frozenset(
    {"removed", "renamed", "widened", "retyped", "made_nullable"}
)
BREAKING: Final[Mapping[CompatibilityMode, frozenset[ChangeKind]]] = {
    "none": frozenset(),
    "backward": BACKWARD,
    "forward": FORWARD,
    "full": BACKWARD | FORWARD,
}


def broken_modes(change: SchemaChange) -> list[str]:
    """The modes that a change breaks: `backward`, `forward`, both or none."""
    modes = {"backward": BACKWARD, "forward": FORWARD}
    return [mode for mode, kinds in modes.items() if change.kind in kinds]


class SchemaChange(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    kind: ChangeKind
    column: str
    """The column as the old schema calls it; of one that was added, as the new one does."""
    path: str
    """The column, or what inside of it: `items[].price`, `labels.value`."""
    before: str = ""
    """The type, or the name, that it had."""
    after: str = ""
    rename: RenameKind | None = None

    def __str__(self) -> str:
        match self.kind:
            case "added":
                return f"{self.path} was added as {self.after}"
            case "added_required":
                return f"{self.path} was added as {self.after} not null, which old files lack"
            case "removed":
                return f"{self.path} was removed"
            case "renamed":
                inferred = " (inferred)" if self.rename == "InferredRename" else ""
                return f"{self.before} was renamed to {self.after}{inferred}"
            case "made_nullable":
                return f"{self.path} may be null now"
            case "made_required":
                return f"{self.path} is not null now, and old files may have nulls"
            case "moved":
                return f"{self.path} was moved"
        return f"{self.path} was {self.kind} from {self.before} to {self.after}"


class Comparison(NamedTuple):
    changes: tuple[SchemaChange, ...]
    mode: CompatibilityMode

    @property
    def violations(self) -> tuple[SchemaChange, ...]:
        return tuple(each for each in self.changes if each.kind in BREAKING[self.mode])


class ColumnPair(NamedTuple):
    """A column in two schemas."""

    old: SchemaColumn
    new: SchemaColumn
    rename: RenameKind | None = None


class Matching(NamedTuple):
    pairs: list[ColumnPair]
    """In the order of the new schema."""
    removed: list[SchemaColumn]
    added: list[SchemaColumn]


def compare(
    old: Sequence[SchemaColumn],
    new: Sequence[SchemaColumn],
    mode: CompatibilityMode = "backward",
    renames: Mapping[str, str] | None = None,
) -> Comparison:
    """The changes from one schema to the next.

    `renames` are the governed ones: new names by old ones, or the same name.
    """
    return Comparison(tuple(_changes(matched(old, new, renames or {}), old)), mode)


def matched(
    old: Sequence[SchemaColumn], new: Sequence[SchemaColumn], renames: Mapping[str, str]
) -> Matching:
    """Match the columns of two schemas."""
    pairs: dict[str, ColumnPair] = {}
    remaining = {each.name: each for each in old}
    names = {each.name for each in new}
    former = {after: before for before, after in renames.items() if before not in names}
    for each in new:
        if before := remaining.pop(each.name, None):
            pairs[each.name] = ColumnPair(before, each)
    for each in new:
        if each.name not in pairs and (before := remaining.pop(former.get(each.name, ""), None)):
            pairs[each.name] = ColumnPair(before, each, "GovernedRename")
    added = [each for each in new if each.name not in pairs]
    for pair in _inferred(old, remaining, added, new, renames):
        del remaining[pair.old.name]
        pairs[pair.new.name] = pair
    return Matching(
        [pairs[each.name] for each in new if each.name in pairs],
        list(remaining.values()),
        [each for each in new if each.name not in pairs],
    )


def _inferred(
    old: Sequence[SchemaColumn],
    remaining: Mapping[str, SchemaColumn],
    added: Sequence[SchemaColumn],
    new: Sequence[SchemaColumn],
    renames: Mapping[str, str],
) -> Iterator[ColumnPair]:
    by_case = {each.name.lower(): each for each in remaining.values()}
    by_field = {-1 if each.field_id is None else each.field_id: each for each in remaining.values()}
    used: set[str] = set()
    for each in added:
        before = by_case.get(each.name.lower())
        if before is None and each.field_id is not None:
            before = by_field.get(each.field_id)
        if before is not None and before.name not in used:
            used.add(before.name)
            yield ColumnPair(before, each, "InferredRename")
    if used or len(remaining) != 1 or len(added) != 1:
        return
    (removed,), (candidate,) = remaining.values(), added
    if removed.name in renames:
        return
    if (
        removed.type
        and removed.type == candidate.type
        and list(old).index(removed) == list(new).index(candidate)
    ):
        yield ColumnPair(removed, candidate, "InferredRename")


def _changes(matching: Matching, old: Sequence[SchemaColumn]) -> Iterator[SchemaChange]:
    for removed in matching.removed:
        yield SchemaChange("removed", removed.name, removed.name, removed.type_text)
    for pair in matching.pairs:
        before, after = pair.old, pair.new
        name = before.name
        if pair.rename is not None:
            yield SchemaChange("renamed", name, name, name, after.name, pair.rename)
        if before.type and after.type:
            yield from _type_changes(name, name, before.type, after.type)
        yield from _null_change(name, name, before.nullable, after.nullable)
    for each in matching.added:
        kind: ChangeKind = "added_required" if each.nullable is False else "added"
        yield SchemaChange(kind, each.name, each.name, "", each.type_text)
    yield from _moves([pair.old.name for pair in matching.pairs], old)


def _moves(names: Sequence[str], old: Sequence[SchemaColumn]) -> Iterator[SchemaChange]:
    """Columns whose place changed among those that both schemas have."""
    both = set(names)
    before = [each.name for each in old if each.name in both]
    for was, name in zip(before, names, strict=True):
        if was != name:
            yield SchemaChange("moved", name, name)


def _null_change(
    column: str, path: str, before: bool | None, after: bool | None
) -> Iterator[SchemaChange]:
    if before is False and after is True:
        yield SchemaChange("made_nullable", column, path)
    elif before is True and after is False:
        yield SchemaChange("made_required", column, path)


def _type_changes(
    column: str, path: str, before: ColumnType, after: ColumnType
) -> Iterator[SchemaChange]:
    if before == after:
        return
    if isinstance(before, str) or isinstance(after, str) or before["type"] != after["type"]:
        yield SchemaChange(_leaf_kind(before, after), column, path, text(before), text(after))
        return
    match before["type"]:
        case "array":
            yield from _part(column, f"{path}[]", before, after, "elementType", "containsNull")
        case "map":
            yield from _type_changes(column, f"{path}.key", before["keyType"], after["keyType"])
            yield from _part(
                column, f"{path}.value", before, after, "valueType", "valueContainsNull"
            )
        case "struct":
            yield from _field_changes(column, path, before["fields"], after["fields"])
        case _:
            yield SchemaChange("retyped", column, path, text(before), text(after))


def _part(
    column: str, path: str, before: SparkField, after: SparkField, type: str, nulls: str
) -> Iterator[SchemaChange]:
    yield from _type_changes(column, path, before[type], after[type])
    yield from _null_change(column, path, before[nulls], after[nulls])


def _field_changes(
    column: str, path: str, before: Iterable[SparkField], after: Iterable[SparkField]
) -> Iterator[SchemaChange]:
    remaining = {each["name"]: each for each in before}
    for each in after:
        inner = f"{path}.{each['name']}"
        old_field = remaining.pop(each["name"], None)
        if old_field is None:
            kind: ChangeKind = "added" if each["nullable"] else "added_required"
            yield SchemaChange(kind, column, inner, "", text(each["type"]))
            continue
        yield from _part(column, inner, old_field, each, "type", "nullable")
    for removed in remaining.values():
        yield SchemaChange("removed", column, f"{path}.{removed['name']}", text(removed["type"]))


def _is_unreadable(integer: ColumnType, decimal: ColumnType) -> bool:
    """Whether Spark cannot read whole numbers as a decimal, although that holds their values.

    Parquet stores bytes and shorts as 32 bits; the decimal must hold all numbers of that width.
    """
    if not isinstance(decimal, str) or integer not in WHOLE_NUMBERS:
        return False
    digits = DECIMAL.fullmatch(decimal)
    needed = 20 if integer == "long" else 10
    return digits is not None and int(digits[1]) - int(digits[2]) < needed


def _leaf_kind(before: ColumnType, after: ColumnType) -> ChangeKind:
    wide = widened(before, after)
    if wide is None or _is_unreadable(before, after) or _is_unreadable(after, before):
        return "retyped"
    return "widened" if wide == after else "narrowed" if wide == before else "retyped"
