"""Namespaces: what code says of one, and what its assets have by default.

namespace("sales", owners=["sales-team@example.org"], sla=SLA(max_age="26h"))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from servo.contract.manifest import Code, Namespace
from servo.policy import SLA
from servo.registry import register
from servo.source import code_of_caller, expect, expect_each


class NamespaceDefinition:
    """See `namespace`."""

    def __init__(self, wire: Namespace) -> None:
        self.name: Final = wire.name
        self.wire: Final = wire
        self.code: Final[Code] = wire.code
        register(self)


def namespace(
    name: str,
    *,
    description: str = "",
    owners: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    sla: SLA | None = None,
    terms: Sequence[str] = (),
    links: Mapping[str, str] | None = None,
) -> NamespaceDefinition:
    """Describe a namespace that this project has assets in.

    Owners and SLA are those of the assets that have none of their own; an asset has the tags
    of its namespace, except where it has another value for the same key.
    """
    expect(name, str, "name")
    expect(description, str, "description")
    expect_each(owners, str, "owners")
    expect_each(terms, str, "terms")
    expect(sla, (SLA, type(None)), "sla", hint='write SLA(max_age="26h")')
    for what, entries in (("tags", tags or {}), ("links", links or {})):
        expect(entries, Mapping, what)
        for key, value in entries.items():
            expect(key, str, f"a key of {what}")
            expect(value, str, f"{what}[{key!r}]", hint=f"write {str(value)!r}")
    return NamespaceDefinition(
        Namespace(
            name=name,
            description=description,
            owners=tuple(dict.fromkeys(owners)),
            tags=dict(tags or {}),
            sla=None if sla is None else sla.wire(),
            terms=tuple(dict.fromkeys(terms)),
            links=dict(links or {}),
            code=code_of_caller(name),
        )
    )
