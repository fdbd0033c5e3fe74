"""Notes about deprecated assets."""

from __future__ import annotations

from collections.abc import Iterable

from arco.catalog.governance_reader import GovernanceReader
from arco.cli import render
from arco.state.snapshot import Snapshot

LISTED = 10


def note_deprecated(snapshot: Snapshot, keys: Iterable[str]) -> None:
    """A remark for each of these assets that is deprecated."""
    deprecations = GovernanceReader(snapshot).deprecations()
    listed = sorted(deprecations.keys() & set(keys))
    for key in listed[:LISTED]:
        render.note(f"{key} is deprecated: {deprecations[key]}")
    if len(listed) > LISTED:
        render.note(f"{len(listed) - LISTED} more are deprecated; see `servo catalog asset list`")
