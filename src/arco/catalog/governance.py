"""Statements of code, people and dbt about namespaces, assets and columns; values in effect.

A *statement* is all values of one source, each at a path:

    description          text: one value
    owners:ana           a member of a set; its value is its place among the members
    tags:tier            an entry of a map
    col_12/pii           the same for a column, by its id

Deployments replace the statement of code, imports that of dbt, people change theirs value by value.
Sources do not change each other's statements. In effect is, for each field:

    text    what people say, or else what code says, or else what dbt says
    set     the members of all, those of code first, those of dbt last
    map     the entries of all; of the same entry, what people say, then code, then dbt

People may state that a column holds no personal data (`none`), whatever code states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple

import msgspec

from arco.catalog.names import MAX_ENTRIES, MAX_TEXT, PII, SENSITIVITIES
from arco.errors import Invalid
from servo.contract import canonical
from servo.contract.keys import check_name
from servo.contract.manifest import SlaSpec
from servo.duration import duration_text
from servo.suggest import did_you_mean

Source = Literal["code", "people", "dbt"]
SOURCES: Final[tuple[Source, ...]] = ("code", "people", "dbt")
"""In the order of members of sets."""
PRECEDENCE: Final[tuple[Source, ...]] = ("people", "code", "dbt")
"""Of values at the same path, that of the first source is in effect."""
FieldKind = Literal["text", "set", "map"]
SubjectKind = Literal["namespace", "asset", "column"]
FIELDS: Final[Mapping[str, FieldKind]] = {
    "description": "text",
    "owners": "set",
    "tags": "map",
    "sla": "text",
    "terms": "set",
    "links": "map",
    "deprecated": "text",
    "pii": "text",
    "sensitivity": "text",
}
_SHARED = ("description", "owners", "tags", "sla", "terms", "links")
FIELDS_OF: Final[Mapping[SubjectKind, tuple[str, ...]]] = {
    "namespace": _SHARED,
    "asset": (*_SHARED, "deprecated"),
    "column": ("description", "pii", "sensitivity", "terms"),
}
_TEXTS_OF: Final = {
    subject: tuple(field for field in fields if FIELDS[field] == "text")
    for subject, fields in FIELDS_OF.items()
}
_MEMBERS_OF: Final = {
    subject: tuple(field for field in fields if FIELDS[field] != "text")
    for subject, fields in FIELDS_OF.items()
}
INHERITED: Final = ("owners", "tags", "sla")
"""Fields that an asset inherits from its namespace if it has no own value."""
LINK_SCHEMES: Final = ("https://", "http://", "mailto:")
_sla = msgspec.json.Decoder(SlaSpec)


class ValuePath(NamedTuple):
    field: str
    entry: str = ""
    column_id: str = ""

    def __str__(self) -> str:
        of = f"{self.column_id}/" if self.column_id else ""
        return f"{of}{self.field}:{self.entry}" if self.entry else f"{of}{self.field}"

    @classmethod
    def parse(cls, text: str) -> ValuePath:
        head, _, entry = text.partition(":")
        column_id, _, field = head.rpartition("/")
        return cls(field, entry, column_id)

    def names(self) -> str:
        """For people."""
        return f"{self.field} {self.entry}" if self.entry else self.field


Values = Mapping[str, str]
"""By path."""


class Statement(NamedTuple):
    values: dict[str, str]
    positions: dict[str, int]
    """Of the event that set each value."""
    authors: dict[int, str]
    times: dict[int, datetime]
    """By position."""

    def with_values(self, values: Values, position: int, author: str, time: datetime) -> Statement:
        """The same statement with other values; a value that stays keeps its author."""
        if not self.values:
            positions = dict.fromkeys(values, position)
        else:
            positions = {
                path: self.positions[path] if self._has(path, value) else position
                for path, value in values.items()
            }
        used = set(positions.values())
        authors = {**self.authors, position: author}
        times = {**self.times, position: time}
        return Statement(
            dict(values),
            positions,
            {at: authors[at] for at in used},
            {at: times[at] for at in used},
        )

    def _has(self, path: str, value: str) -> bool:
        before = self.values.get(path)
        if before is None or before == value:
            return before == value
        return FIELDS[ValuePath.parse(path).field] == "set"


NOTHING: Final = Statement({}, {}, {}, {})


def values_at(column_id: str = "", **fields: Any) -> dict[str, str]:
    """Fields of an event or a declaration as values; empty ones are left out."""
    values: dict[str, str] = {}
    of = f"{column_id}/" if column_id else ""
    for field, value in fields.items():
        if not value:
            continue
        match FIELDS[field]:
            case "text":
                values[f"{of}{field}"] = value
            case "set":
                for place, member in enumerate(dict.fromkeys(value)):
                    values[f"{of}{field}:{member}"] = str(place)
            case "map":
                values |= {f"{of}{field}:{entry}": text for entry, text in value.items()}
    return values


def without(values: Values, column_id: str, fields: Iterable[str]) -> dict[str, str]:
    """The values without all of these fields of a column, or of the subject itself."""
    left_out = {(column_id, field) for field in fields}
    paths = {path: ValuePath.parse(path) for path in values}
    return {p: v for p, v in values.items() if (paths[p].column_id, paths[p].field) not in left_out}


def with_member(values: Values, path: ValuePath) -> dict[str, str]:
    """The values with a member of a set: a new one is the last."""
    if str(path) in values:
        return dict(values)
    places = [int(values[str(p)]) for p in _members(values, path.field, path.column_id)]
    return {**values, str(path): str(max(places, default=-1) + 1)}


def _members(values: Values, field: str, column_id: str) -> list[ValuePath]:
    """The members of a set, or the entries of a map, in their order."""
    start = f"{column_id}/{field}:" if column_id else f"{field}:"
    paths = [ValuePath.parse(path) for path in values if path.startswith(start)]
    if len(paths) < 2:
        return paths
    if FIELDS[field] == "set":
        return sorted(paths, key=lambda path: (int(values[str(path)]), path.entry))
    return sorted(paths, key=lambda path: path.entry)


def column_of(path: str) -> str:
    return path.partition(":")[0].rpartition("/")[0]


def by_column(values: Values) -> dict[str, Values]:
    """Values by the id of their column, and by their paths below it.

    Those of the subject itself are at the empty id.
    """
    columns: dict[str, dict[str, str]] = {}
    for path, value in values.items():
        column_id = column_of(path)
        below = path[len(column_id) + 1 :] if column_id else path
        columns.setdefault(column_id, {})[below] = value
    return dict(columns)


def effective(
    subject: SubjectKind, code: Values, people: Values, dbt: Values | None = None
) -> dict[str, Any]:
    """The fields of a subject as its row has them. Paths are below the subject."""
    imported = dbt or {}
    fields: dict[str, Any] = {
        field: people.get(field) or code.get(field) or imported.get(field, "")
        for field in _TEXTS_OF[subject]
    }
    for field in _MEMBERS_OF[subject]:
        sets = FIELDS[field] == "set"
        members = [
            (values, member)
            for values in ((code, people, imported) if sets else (imported, code, people))
            if values
            for member in _members(values, field, "")
        ]
        if FIELDS[field] == "set":
            fields[field] = list(dict.fromkeys(member.entry for _, member in members))
        else:
            fields[field] = {member.entry: values[str(member)] for values, member in members}
    return fields


def inherited(own: Mapping[str, Any], namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Owners, tags and SLA of an asset, with those of its namespace where it has none."""
    return {
        "owners": own["owners"] or namespace["owners"],
        "tags": {**namespace["tags"], **own["tags"]},
        "sla": own["sla"] or namespace["sla"],
    }


def term_uses(*statements: Values) -> set[tuple[str, str]]:
    """The terms that statements name, with the columns that they are for."""
    every = {path for values in statements for path in values if "terms:" in path}
    paths = (ValuePath.parse(path) for path in every)
    return {(path.entry, path.column_id) for path in paths if path.field == "terms"}


# -- validation ---------------------------------------------------------------------------


def check_field(subject: SubjectKind, field: str) -> None:
    fields = FIELDS_OF[subject]
    if field not in fields:
        hint = did_you_mean(field, fields) or f"one of {', '.join(fields)}"
        article = "an" if subject == "asset" else "a"
        raise Invalid(f"{article} {subject} has no field {field!r}", hint=hint)


def check_value(subject: SubjectKind, field: str, entry: str, value: str) -> None:
    """Raise Invalid for an invalid value."""
    check_field(subject, field)
    kind = FIELDS[field]
    if len(entry) + len(value) > MAX_TEXT:
        size = len(entry) + len(value)
        raise Invalid(f"{field}: {size} characters; the limit is {MAX_TEXT}")
    if (kind == "text") == bool(entry) or (kind != "text" and not entry.strip()):
        names = "no entry" if kind == "text" else "the name of an entry"
        raise Invalid(f"{field} takes {names}", hint="see `servo catalog set --help`")
    if kind == "text" and not value.strip():
        raise Invalid(f"{field} is empty", hint="withdraw it with `servo catalog withdraw`")
    if (check := _CHECKS.get(field)) is not None:
        check(entry, value)


def check_entries(values: Values, column_id: str, field: str) -> None:
    count = len(_members(values, field, column_id))
    if count > MAX_ENTRIES:
        raise Invalid(f"{count} {field}; the limit is {MAX_ENTRIES}")


def check_pii(pii: str) -> None:
    if pii not in PII and not pii.startswith("custom:"):
        raise Invalid(
            f"{pii!r} is not a kind of PII", hint=f"one of {', '.join(PII[1:])}, or custom:WORD"
        )


def check_sensitivity(level: str) -> None:
    if level not in SENSITIVITIES:
        raise Invalid(
            f"{level!r} is not a sensitivity", hint=f"one of {', '.join(SENSITIVITIES[1:])}"
        )


def _check_pii(entry: str, value: str) -> None:
    check_pii(value)


def _check_link(entry: str, value: str) -> None:
    if not value.startswith(LINK_SCHEMES):
        raise Invalid(
            f"the link {entry!r} is {value!r}", hint=f"write one of {', '.join(LINK_SCHEMES)}…"
        )


def encode_sla(sla: SlaSpec | None) -> str:
    return "" if sla is None else canonical.encode(sla).decode()


def sla_text(sla: SlaSpec) -> str:
    """A promise in words: `at most 26h old at 0 8 * * * (Europe/Berlin)`."""
    parts = []
    if sla.max_age_s:
        at = f" at {sla.cron} ({sla.timezone})" if sla.cron else ""
        parts.append(f"at most {duration_text(sla.max_age_s)} old{at}")
    if sla.availability:
        parts.append(f"available {sla.availability} % of the time")
    return "; ".join([*parts, sla.text] if sla.text else parts)


def decode_sla(text: str) -> SlaSpec | None:
    if not text:
        return None
    try:
        return _sla.decode(text)
    except msgspec.DecodeError as error:
        raise Invalid(f"not an SLA: {error}") from None


_CHECKS: Final[Mapping[str, Callable[[str, str], object]]] = {
    "pii": _check_pii,
    "sensitivity": lambda entry, value: check_sensitivity(value),
    "links": _check_link,
    "terms": lambda entry, value: check_name(entry, "term"),
    "sla": lambda entry, value: decode_sla(value),
}
