"""The subject of a statement: a namespace, an asset, or a column."""

from __future__ import annotations

from typing import NamedTuple

from arco.catalog.governance import SubjectKind
from arco.errors import Invalid
from servo.contract.keys import AssetKey, check_name


class CatalogSubject(NamedTuple):
    namespace: str
    name: str = ""
    column: str = ""

    @classmethod
    def parse(cls, text: str) -> CatalogSubject:
        """`sales`, `sales.orders` or `sales.orders.email`; a column's name may have dots."""
        namespace, dot, rest = text.partition(".")
        check_name(namespace, "namespace")
        name, second, column = rest.partition(".")
        if dot:
            check_name(name, "asset name")
        if second and not column:
            raise Invalid(f"{text!r} names no column", hint="write namespace.asset.column")
        return cls(namespace, name, column)

    @property
    def kind(self) -> SubjectKind:
        if self.column:
            return "column"
        return "asset" if self.name else "namespace"

    @property
    def key(self) -> AssetKey:
        return AssetKey(self.namespace, self.name)

    def __str__(self) -> str:
        return ".".join(filter(None, self))
