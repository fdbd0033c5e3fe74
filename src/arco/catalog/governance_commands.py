"""Commands for values that people set on namespaces, assets and columns, and for the glossary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from arco.catalog import governance
from arco.catalog.governance_events import (
    AssetGoverned,
    GovernedValue,
    NamespaceGoverned,
    TermCreated,
    TermDropped,
    TermUpdated,
    ValueRef,
)
from arco.catalog.governance_reader import GovernanceReader
from arco.catalog.names import MAX_ENTRIES, MAX_TEXT, check_printable
from arco.catalog.reader import CatalogReader
from arco.catalog.subjects import CatalogSubject
from arco.errors import Invalid
from arco.log.envelope import Payload
from arco.state.snapshot import Snapshot
from arco.state.tier1 import Acknowledged, Tier1
from servo.contract.keys import check_name


class TermDetails(TypedDict, total=False):
    """None leaves a field as it is."""

    description: str | None
    owners: Sequence[str] | None
    links: Mapping[str, str] | None


class GovernanceCommands:
    def __init__(self, tier1: Tier1, actor: str = "") -> None:
        self._tier1 = tier1
        self._actor = actor

    def change(
        self,
        subject: str,
        *,
        set: Sequence[GovernedValue] = (),
        withdraw: Sequence[ValueRef] = (),
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        """Set and withdraw values of a namespace, an asset or a column, as a person.

        Other values stay, and so do those of code: after a withdrawal the value of code is in
        effect. Raises Refused if the subject's row has another version than expected, or if people
        have not set what is to be withdrawn.
        """
        target = CatalogSubject.parse(subject)
        if not set and not withdraw:
            raise Invalid("nothing to change", hint="give a value to set, or one to withdraw")
        for each in set:
            governance.check_value(target.kind, each.field, each.entry, each.value)
            if each.field == "owners":
                check_printable(each.entry, "the owner")
        for ref in withdraw:
            governance.check_field(target.kind, ref.field)

        def build(snapshot: Snapshot) -> Payload:
            reader = GovernanceReader(snapshot)
            for each in set:
                if each.field == "terms":
                    reader.term(each.entry, may_create=True)
            changes: dict[str, Any] = {"set": tuple(set), "withdraw": tuple(withdraw)}
            if target.kind == "namespace":
                CatalogReader(snapshot).namespace(target.namespace)
                return NamespaceGoverned(
                    namespace=target.namespace, expected_version=expected_version, **changes
                )
            asset_id, column_id = reader.ids(target)
            return AssetGoverned(
                asset_id=asset_id,
                asset_key=str(target.key),
                column_id=column_id,
                column_name=target.column,
                expected_version=expected_version,
                **changes,
            )

        return self._tier1.execute(build, idempotency_key=idempotency_key, actor=self._actor)

    def create_term(
        self, term: str, *, idempotency_key: str = "", **details: Unpack[TermDetails]
    ) -> Acknowledged:
        check_name(term, "term")
        given = _checked_term(details)
        if not given.get("description"):
            raise Invalid(f"the term {term} has no description", hint="say what it means")
        return self._do(TermCreated(term=term, **given), idempotency_key)

    def update_term(
        self,
        term: str,
        *,
        expected_version: int | None = None,
        idempotency_key: str = "",
        **details: Unpack[TermDetails],
    ) -> Acknowledged:
        """Change what is given. Owners and links are replaced as a whole."""
        given = _checked_term(details)
        if given.get("description") == "":
            raise Invalid(f"the term {term} needs a description", hint="say what it means")
        event = TermUpdated(term=term, expected_version=expected_version, **given)
        return self._do(event, idempotency_key, existing=term)

    def drop_term(
        self,
        term: str,
        *,
        force: bool = False,
        expected_version: int | None = None,
        idempotency_key: str = "",
    ) -> Acknowledged:
        """Raises Refused while something uses the term, unless forced."""
        event = TermDropped(term=term, force=force, expected_version=expected_version)
        return self._do(event, idempotency_key, existing=term)

    def _do(self, event: Payload, idempotency_key: str, existing: str = "") -> Acknowledged:
        def build(snapshot: Snapshot) -> Payload:
            if existing:
                GovernanceReader(snapshot).term(existing)
            return event

        return self._tier1.execute(build, idempotency_key=idempotency_key, actor=self._actor)


def _checked_term(details: TermDetails) -> dict[str, Any]:
    """The details that are given, as events have them."""
    changes: dict[str, Any] = {}
    if (description := details.get("description")) is not None:
        if len(description) > MAX_TEXT:
            raise Invalid(f"{len(description)} characters; the limit is {MAX_TEXT}")
        changes["description"] = description.strip()
    if (owners := details.get("owners")) is not None:
        for owner in owners:
            governance.check_value("asset", "owners", owner, "")
            check_printable(owner, "the owner")
        changes["owners"] = tuple(dict.fromkeys(owners))
    if (links := details.get("links")) is not None:
        for name, url in links.items():
            governance.check_value("asset", "links", name, url)
        changes["links"] = dict(links)
    for field in changes.keys() & {"owners", "links"}:
        if len(changes[field]) > MAX_ENTRIES:
            raise Invalid(f"{len(changes[field])} {field}; the limit is {MAX_ENTRIES}")
    return changes
