"""Contracts as documents of the Open Data Contract Standard. `odcs_import` has what is what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from arco.columns.type_text import parse
from arco.columns.types import ColumnType
from servo.contract.manifest import Check, ColumnDef, ContractStatement

API_VERSION: Final = "v3.1.0"
KIND: Final = "DataContract"
ENGINE: Final = "arco"
CONSUMERS: Final = "consumers"
VERSIONS: Final = "retentionVersions"
FRESHNESS: Final = "freshness"
DAY: Final = 86_400
ANY: Final = "object"
"""The logical type of other types: the standard's schema requires one."""
_LOGICAL: Final = {
    "byte": "integer",
    "short": "integer",
    "integer": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "boolean": "boolean",
    "string": "string",
    "date": "date",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp",
    "time(6)": "time",
}


def to_odcs(contract: ContractStatement, *, id: str, tenant: str = "") -> dict[str, Any]:
    """The document of a contract. `id` is what it has for good."""
    description = {"purpose": contract.description, "usage": contract.terms}
    words = {name: text for name, text in description.items() if text}
    custom = [_custom(CONSUMERS, list(contract.consumers))] if contract.consumers else []
    if contract.retention.versions:
        custom.append(_custom(VERSIONS, contract.retention.versions))
    if contract.freshness is not None:
        custom.append(_custom(FRESHNESS, msgspec.to_builtins(contract.freshness)))
    owner = {"members": [{"username": contract.owner, "role": "owner"}]}
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "id": id,
        "name": contract.name,
        "version": contract.version,
        "status": "active",
        "tenant": tenant,
        "description": words,
        "schema": [_object(contract)],
        "team": owner if contract.owner else {},
        "slaProperties": list(_agreements(contract)),
        "customProperties": custom,
    }
    return {name: value for name, value in document.items() if value}


def _custom(name: str, value: object) -> dict[str, Any]:
    return {"property": name, "value": value}


def _object(contract: ContractStatement) -> dict[str, Any]:
    named = {column.name for column in contract.columns}
    extra = [ColumnDef(name=name) for name in contract.key if name not in named]
    fields = {
        "name": contract.name,
        "physicalName": contract.name,
        "logicalType": "object",
        "physicalType": "table",
        "properties": [_property(each, contract.key) for each in (*contract.columns, *extra)],
        "quality": [_quality(check) for check in contract.checks],
    }
    return {name: value for name, value in fields.items() if value}


def _property(column: ColumnDef, key: Sequence[str]) -> dict[str, Any]:
    type = parse(column.type) if column.type else None
    fields: dict[str, Any] = {
        "name": column.name,
        "logicalType": ANY if type is None else _logical(type),
        "physicalType": column.type,
        "description": column.description,
    }
    fields = {name: value for name, value in fields.items() if value}
    if not column.nullable:
        fields["required"] = True
    if column.name in key:
        fields["primaryKey"] = True
        fields["primaryKeyPosition"] = list(key).index(column.name) + 1
    return fields


def _logical(type: ColumnType) -> str:
    if isinstance(type, str):
        return "number" if type.startswith("decimal") else _LOGICAL.get(type, ANY)
    return "array" if type["type"] == "array" else ANY


def _quality(check: Check) -> dict[str, Any]:
    return {
        "name": check.name,
        "type": "custom",
        "engine": ENGINE,
        "implementation": msgspec.to_builtins(check),
    }


def _agreements(contract: ContractStatement) -> Iterator[dict[str, Any]]:
    if contract.freshness is not None:
        value, unit = _whole_unit(contract.freshness.max_age_s)
        yield {"property": "latency", "value": value, "unit": unit}
    if contract.retention.days:
        yield {"property": "retention", "value": contract.retention.days, "unit": "d"}


def _whole_unit(count: int) -> tuple[int, str]:
    for size, unit in ((DAY, "d"), (3_600, "h"), (60, "m")):
        if count % size == 0:
            return count // size, unit
    return count, "s"
