"""Values that people set on namespaces, assets and columns, and terms of the glossary.

A change names values one by one: those to set, and those to withdraw. Values that it does not
name stay. Withdrawing a set or a map without an entry withdraws all that people have in it.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from arco.catalog.events import AddressedNotice, CatalogCommand
from arco.log.envelope import Payload
from servo.contract.manifest import SlaSpec


class GovernedValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    field: str
    entry: str = ""
    """The member of a set, or the name of an entry of a map."""
    value: str = ""


class ValueRef(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    field: str
    entry: str = ""


class AssetGoverned(CatalogCommand, frozen=True, kw_only=True, omit_defaults=True):
    """People set or withdraw values of an asset, or of one of its columns."""

    TYPE: ClassVar[str] = "catalog.asset_governed"
    asset_id: str
    asset_key: str
    column_id: str = ""
    column_name: str = ""
    set: tuple[GovernedValue, ...] = ()
    withdraw: tuple[ValueRef, ...] = ()
    expected_version: int | None = None
    """Of the row of the asset, or of the column."""


class NamespaceGoverned(CatalogCommand, frozen=True, kw_only=True, omit_defaults=True):
    """People set or withdraw values of a namespace."""

    TYPE: ClassVar[str] = "catalog.namespace_governed"
    namespace: str
    set: tuple[GovernedValue, ...] = ()
    withdraw: tuple[ValueRef, ...] = ()
    expected_version: int | None = None


class TermCreated(CatalogCommand, frozen=True, kw_only=True, omit_defaults=True):
    TYPE: ClassVar[str] = "catalog.term_created"
    term: str
    description: str
    owners: tuple[str, ...] = ()
    links: dict[str, str] = {}


class TermUpdated(CatalogCommand, frozen=True, kw_only=True, omit_defaults=True):
    """None leaves a field as it is."""

    TYPE: ClassVar[str] = "catalog.term_updated"
    term: str
    description: str | None = None
    owners: tuple[str, ...] | None = None
    links: dict[str, str] | None = None
    expected_version: int | None = None


class TermDropped(CatalogCommand, frozen=True, kw_only=True, omit_defaults=True):
    TYPE: ClassVar[str] = "catalog.term_dropped"
    VERSION: ClassVar[int] = 2
    term: str
    force: bool = False
    """Drop the term even if it is used; existing references stay."""
    expected_version: int | None = None

    @property
    def lowest_version(self) -> int:
        return 1 if self.expected_version is None else 2


COMMANDS: tuple[type[CatalogCommand], ...] = (
    AssetGoverned,
    NamespaceGoverned,
    TermCreated,
    TermUpdated,
    TermDropped,
)


# -- derived ------------------------------------------------------------------------------


class NamespaceStatement(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The statement of code about a namespace."""

    name: str
    description: str = ""
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}
    sla: SlaSpec | None = None
    terms: tuple[str, ...] = ()
    links: dict[str, str] = {}


class NamespaceDeclared(Payload, frozen=True, kw_only=True):
    """Derived from a deployment: the statement of code about a namespace."""

    TYPE: ClassVar[str] = "catalog.namespace_declared"
    project: str
    deployment_id: str
    asset_id: str = ""
    declaration: NamespaceStatement


class NamespaceUndeclared(Payload, frozen=True, kw_only=True):
    """Derived from a deployment: code has no statement about a namespace any more."""

    TYPE: ClassVar[str] = "catalog.namespace_undeclared"
    project: str
    deployment_id: str
    asset_id: str = ""
    name: str


class NamespaceDefaulted(Payload, frozen=True, kw_only=True):
    """Derived: the values that assets of a namespace inherit."""

    TYPE: ClassVar[str] = "catalog.namespace_defaulted"
    namespace: str
    owners: tuple[str, ...] = ()
    tags: dict[str, str] = {}


class AssetNoticeAddressed(AddressedNotice, frozen=True, kw_only=True):
    """Derived: a notice with the asset's own owners and tags."""

    TYPE: ClassVar[str] = "catalog.asset_notice_addressed"


class TermUsed(Payload, frozen=True, kw_only=True):
    """Derived: something refers to a term, or no longer does."""

    TYPE: ClassVar[str] = "catalog.term_used"
    term: str
    namespace: str = ""
    asset_id: str = ""
    column_id: str = ""
    used: bool = True
