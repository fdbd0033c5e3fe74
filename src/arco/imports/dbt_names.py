"""From relations of a database to keys of assets.

`analytics.marts.orders` becomes `marts.orders`: the schema is the namespace, unless a map says
another one for the schema, or for the database and schema. Invalid characters are replaced: upper
case becomes lower case, other characters `_`, and a name that begins with a digit gets the prefix
`t_`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from arco.errors import Invalid
from arco.imports.dbt_artifacts import DbtNode
from servo.contract.keys import MAX_NAME_LENGTH, check_name

_OTHER = re.compile(r"[^a-z0-9_]")


class NamedNodes(NamedTuple):
    keys: dict[str, str]
    """By the node's id."""
    normalised: dict[str, str]
    """Keys that differ from the name of their relation, by the relation."""
    refused: dict[str, str]
    """Why, by the node's id."""


def parse_map(texts: Iterable[str]) -> dict[str, str]:
    """`analytics.prod=marts` and `prod=marts`. Raises Invalid."""
    namespaces: dict[str, str] = {}
    for text in texts:
        schema, equals, namespace = text.partition("=")
        if not equals or not schema:
            raise Invalid(
                f"{text!r} is not a map of a schema to a namespace",
                hint="write schema=namespace, or database.schema=namespace",
            )
        namespaces[schema.lower()] = check_name(namespace, "namespace")
    return namespaces


def keys_of(nodes: Mapping[str, DbtNode], namespaces: Mapping[str, str]) -> NamedNodes:
    """Raises Invalid where two relations would be one asset."""
    named = NamedNodes({}, {}, {})
    holders: dict[str, str] = {}
    relations: dict[tuple[str, str, str], str] = {}
    for id, node in sorted(nodes.items()):
        database, schema, name = node.relation
        relation = ".".join(part for part in (database, schema, name) if part)
        mapped = namespaces.get(f"{database}.{schema}") or namespaces.get(schema)
        parts = mapped or _normalised(schema), _normalised(name)
        if not all(parts) or max(map(len, parts)) > MAX_NAME_LENGTH:
            named.refused[id] = f"{relation} has no name that a namespace and an asset can have"
            continue
        key = ".".join(parts)
        # A source and a model may be the same table: that is one asset.
        if holders.setdefault(key, relation) != relation:
            raise Invalid(
                f"{holders[key]} and {relation} would both be the asset {key}",
                hint=f"map one of them: --namespace-map {database or 'database'}.{schema}=…",
            )
        if node.relation in relations and node.resource_type != "source":
            other = relations[node.relation]
            raise Invalid(f"{other} and {id} are both the relation {relation}")
        if node.resource_type != "source":
            relations[node.relation] = id
        named.keys[id] = key
        if parts != (mapped or schema, name):
            named.normalised[relation] = key
    return named


def _normalised(text: str) -> str:
    name = _OTHER.sub("_", text.lower()).lstrip("_")
    if not name.strip("_"):
        return ""
    return f"t_{name}" if name[0].isdigit() else name
