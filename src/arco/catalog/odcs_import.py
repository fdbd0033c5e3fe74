"""Contracts in the Open Data Contract Standard (ODCS), versions 3.x, both ways.

    ours                       the standard's
    asset                      schema[].name
    version                    version
    description, terms         description.purpose, description.usage
    columns                    schema[].properties (name, logicalType, physicalType, required)
    key                        primaryKey, primaryKeyPosition
    checks                     quality, type custom, engine arco: the check as it is
    freshness                  slaProperties, property latency
    retention                  slaProperties, property retention; versions as a custom property
    owner                      team.members, role owner
    consumers                  customProperties, property consumers

An exported contract that is imported again is the same. From other documents, quality rules of the
library (`rowCount`, `nullValues`, `missingValues`, `duplicateValues`) are imported too, if they are
equivalent to a check; the others are reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from arco.catalog.contract_changes import substance
from arco.catalog.odcs_export import CONSUMERS, DAY, ENGINE, FRESHNESS, KIND, VERSIONS
from arco.columns.type_text import parse
from arco.errors import Invalid
from servo.contract.contract_version import ContractVersion
from servo.contract.keys import AssetKey
from servo.contract.manifest import (
    Check,
    ColumnDef,
    ContractStatement,
    FreshnessSpec,
    Retention,
)
from servo.duration import seconds

KNOWN: Final = frozenset(
    {
        *("version", "kind", "apiVersion", "id", "name", "tenant", "tags", "status", "servers"),
        *("dataProduct", "description", "domain", "context", "schema", "support", "price", "team"),
        *("roles", "slaDefaultElement", "slaProperties", "authoritativeDefinitions"),
        *("customProperties", "contractCreatedTs"),
    }
)
"""The fields of a document. Others are an error, so that none is dropped silently."""
TAKEN: Final = frozenset(
    {
        *("version", "kind", "apiVersion", "id", "name", "status", "description", "schema"),
        *("team", "slaProperties", "customProperties", "tenant"),
    }
)
_PHYSICAL: Final = {
    "integer": "bigint",
    "number": "double",
    "boolean": "boolean",
    "string": "string",
    "date": "date",
    "timestamp": "timestamp",
}
_UNITS: Final = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3_600),
    **dict.fromkeys(("", "d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 7 * 86_400),
    **dict.fromkeys(("y", "yr", "year", "years"), 365 * 86_400),
}


class ImportedContract(NamedTuple):
    contract: ContractStatement
    left_out: tuple[str, ...]
    """What of the document is not enforced."""


def from_odcs(document: object, *, asset: str = "", schema: str = "") -> ImportedContract:
    """The contract in a document. Raises Invalid with the place of the error.

    `schema` chooses one of several; `asset` is what it is about, if its name is no asset's key.
    """
    fields = _mapping(document, "the document")
    for name in fields:
        if name not in KNOWN:
            raise Invalid(f"the document has the unknown field {name!r}", hint="remove it")
    _check_kind(fields)
    chosen, where = _chosen(_listed(fields, "schema", "schema"), schema)
    name = asset or str(chosen.get("physicalName") or chosen.get("name") or "")
    try:
        key = str(AssetKey.parse(name))
    except Invalid:
        raise Invalid(
            f"{where} is called {name!r}, which is not an asset key", hint="give --asset"
        ) from None
    omitted = [each for each in sorted(fields) if each not in TAKEN]
    columns, keys = _columns(chosen, where)
    description = _mapping(fields.get("description") or {}, "description")
    words = [str(description[each]) for each in ("usage", "limitations") if description.get(each)]
    custom = _customs(fields)
    days, freshness = _promised_times(fields, custom, omitted)
    contract = ContractStatement(
        name=key,
        version=str(ContractVersion.parse(_text(fields, "version"))),
        description=str(description.get("purpose") or ""),
        terms="\n".join(words),
        owner=_owner(fields.get("team")),
        consumers=_consumers(custom.pop(CONSUMERS, ())),
        columns=columns,
        key=keys,
        checks=tuple(_checks(chosen, where, omitted)),
        freshness=freshness,
        retention=Retention(days=days, versions=_whole(custom.pop(VERSIONS, 0), VERSIONS)),
    )
    omitted += [f"customProperties.{each}" for each in sorted(custom)]
    return ImportedContract(contract, tuple(omitted))


def _check_kind(fields: Mapping[str, Any]) -> None:
    kind, version = fields.get("kind"), fields.get("apiVersion")
    if kind != KIND:
        raise Invalid(f"kind is {kind!r}, not {KIND!r}", hint="this is not a data contract")
    if not isinstance(version, str) or not version.startswith("v3."):
        raise Invalid(
            f"apiVersion is {version!r}; contracts of v3.x are read",
            hint="convert it to version 3 of the standard",
        )


def _chosen(objects: Sequence[object], name: str) -> tuple[Mapping[str, Any], str]:
    named = [_mapping(each, f"schema[{at}]") for at, each in enumerate(objects)]
    names = [str(each.get("name", "")) for each in named]
    if name and name not in names:
        raise Invalid(f"the document has no schema {name!r}", hint=f"it has {', '.join(names)}")
    if not named:
        raise Invalid("the document has no schema", hint="an asset's contract needs one")
    if not name and len(named) > 1:
        raise Invalid(
            f"the document has {len(named)} schemas: {', '.join(names)}",
            hint="choose one with --schema; an asset has a contract of its own",
        )
    at = names.index(name) if name else 0
    return named[at], f"schema[{at}]"


def _columns(
    chosen: Mapping[str, Any], where: str
) -> tuple[tuple[ColumnDef, ...], tuple[str, ...]]:
    columns: list[ColumnDef] = []
    keys: dict[str, int] = {}
    for at, each in enumerate(_listed(chosen, "properties", f"{where}.properties")):
        place = f"{where}.properties[{at}]"
        fields = _mapping(each, place)
        name = _text(fields, "name", place)
        if fields.get("primaryKey"):
            keys[name] = int(fields.get("primaryKeyPosition") or -1)
        columns.append(
            ColumnDef(
                name=name,
                type=_type(fields, place),
                description=str(fields.get("description") or ""),
                nullable=not fields.get("required", False),
            )
        )
    return tuple(columns), tuple(sorted(keys, key=lambda name: keys[name]))


def _type(fields: Mapping[str, Any], place: str) -> str:
    """The physical type, if it is one of Spark's; else what the logical one is in Spark."""
    physical, logical = str(fields.get("physicalType") or ""), str(fields.get("logicalType") or "")
    if physical and parse(physical) is not None:
        return physical
    if physical and not logical:
        raise Invalid(
            f"{place} has the physical type {physical!r}, which is not a Spark type",
            hint="give a logicalType, or a type such as bigint",
        )
    return _PHYSICAL.get(logical, "")


def _checks(chosen: Mapping[str, Any], where: str, omitted: list[str]) -> Iterator[Check]:
    seen: dict[bytes, Check] = {}
    for place, column, rule in _rules(chosen, where):
        check = _check(rule, column, place)
        if check is None:
            omitted.append(place)
        elif substance(check) not in seen:
            names = {each.name for each in seen.values()}
            while check.name in names:  # two rules of one kind
                check = msgspec.structs.replace(check, name=f"{check.name}'")
            seen[substance(check)] = check
    yield from seen.values()


def _rules(chosen: Mapping[str, Any], where: str) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for at, rule in enumerate(_listed(chosen, "quality", f"{where}.quality")):
        place = f"{where}.quality[{at}]"
        yield place, "", _mapping(rule, place)
    for at, each in enumerate(_listed(chosen, "properties", f"{where}.properties")):
        fields = _mapping(each, f"{where}.properties[{at}]")
        inside = f"{where}.properties[{at}].quality"
        if fields.get("unique"):
            yield inside, str(fields["name"]), {"metric": "duplicateValues", "mustBe": 0}
        for number, rule in enumerate(_listed(fields, "quality", inside)):
            place = f"{inside}[{number}]"
            yield place, str(fields["name"]), _mapping(rule, place)


def _check(rule: Mapping[str, Any], column: str, place: str) -> Check | None:
    """The equivalent check; None if there is none."""
    if rule.get("type") == "custom" and rule.get("engine") == ENGINE:
        try:
            return msgspec.convert(rule.get("implementation"), Check)
        except msgspec.ValidationError as error:
            raise Invalid(f"{place} is not a valid check: {error}") from None
    metric = rule.get("metric") or rule.get("rule")
    arguments = rule.get("arguments") or {}
    none = rule.get("mustBe") == 0 or rule.get("mustBeLessThan") == 1
    if metric == "rowCount" and not column and (bounds := _bounds(rule)):
        return Check(kind="row_count", name="row_count", params=bounds)
    if metric in ("nullValues", "missingValues") and column and none and not arguments:
        return Check(kind="not_null", name=f"not_null({column})", columns=(column,))
    if metric == "duplicateValues" and none:
        named = arguments.get("properties") if isinstance(arguments, dict) else None
        columns = tuple(map(str, named)) if named else (column,) if column else ()
        if columns:
            return Check(kind="unique", name=f"unique({', '.join(columns)})", columns=columns)
    return None


def _bounds(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Whole numbers, both included; None if the rule is of another form."""
    least = _first_whole(rule, (("mustBeGreaterOrEqualTo", 0), ("mustBeGreaterThan", 1)))
    most = _first_whole(rule, (("mustBeLessOrEqualTo", 0), ("mustBeLessThan", -1)))
    exactly, between = rule.get("mustBe"), rule.get("mustBeBetween")
    if type(exactly) is int:
        least = most = exactly
    elif isinstance(between, list) and [type(each) for each in between] == [int, int]:
        least, most = between
    bounds = {"min": least, "max": most}
    return {name: str(value) for name, value in bounds.items() if value is not None}


def _first_whole(rule: Mapping[str, Any], terms: Sequence[tuple[str, int]]) -> int | None:
    for name, added in terms:
        value = rule.get(name)
        if type(value) is int:
            return value + added
    return None


def _promised_times(
    fields: Mapping[str, Any], custom: dict[str, Any], omitted: list[str]
) -> tuple[int, FreshnessSpec | None]:
    days, freshness = 0, None
    own = custom.pop(FRESHNESS, None)
    for at, each in enumerate(_listed(fields, "slaProperties", "slaProperties")):
        place = f"slaProperties[{at}]"
        agreement = _mapping(each, place)
        name = str(agreement.get("property", ""))
        if name in ("latency", "freshness", "ly"):
            freshness = FreshnessSpec(max_age_s=_duration(agreement, place))
        elif name in ("retention", "re"):
            days = -(-_duration(agreement, place) // DAY)
        else:
            omitted.append(f"{place} ({name})")
    if own is not None:
        try:
            freshness = msgspec.convert(own, FreshnessSpec)
        except msgspec.ValidationError as error:
            raise Invalid(
                f"customProperties.{FRESHNESS} is not a valid freshness: {error}"
            ) from None
    return days, freshness


def _duration(agreement: Mapping[str, Any], place: str) -> int:
    value, unit = agreement.get("value"), str(agreement.get("unit") or "").lower()
    if isinstance(value, str) and not value.strip().isdecimal():
        return seconds(value, place)
    size = _UNITS.get(unit)
    if size is None or isinstance(value, bool) or not isinstance(value, int | float | str):
        raise Invalid(f"{place} is {value!r} {unit}", hint="give a number and d, h, m or s")
    count = float(value) * size
    if count < 1 or count != int(count):
        raise Invalid(f"{place} is {value!r} {unit}", hint="give a number and d, h, m or s")
    return int(count)


def _customs(fields: Mapping[str, Any]) -> dict[str, Any]:
    custom = {}
    for at, each in enumerate(_listed(fields, "customProperties", "customProperties")):
        place = f"customProperties[{at}]"
        entry = _mapping(each, place)
        custom[_text(entry, "property", place)] = entry.get("value")
    return custom


def _consumers(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [each.strip() for each in value.split(",")]
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise Invalid(f"customProperties.{CONSUMERS} is {value!r}", hint="give a list of names")
    return tuple(dict.fromkeys(value))


def _owner(team: object) -> str:
    members = team.get("members") if isinstance(team, Mapping) else team
    for each in members if isinstance(members, list) else ():
        if isinstance(each, Mapping) and str(each.get("role", "")).lower() == "owner":
            return str(each.get("username") or "")
    return ""


def _mapping(value: object, place: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Invalid(f"{place} is {_shortened(value)}, not an object with fields")
    return value


def _listed(fields: Mapping[str, Any], name: str, place: str) -> Sequence[object]:
    value = fields.get(name) or []
    if not isinstance(value, list):
        raise Invalid(f"{place} is {_shortened(value)}, not a list")
    return value


def _text(fields: Mapping[str, Any], name: str, place: str = "the document") -> str:
    value = fields.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value:
        raise Invalid(f"{place} has no {name}", hint=f"give {name} as text")
    return value


def _whole(value: object, name: str) -> int:
    if type(value) is not int or value < 0:
        raise Invalid(f"customProperties.{name} is {value!r}", hint="give a whole number")
    return value


def _shortened(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
