"""A note on workspaces that an older version wrote, and that were not rebuilt since."""

from __future__ import annotations

from arco.cli import render
from arco.cli.session import Session
from arco.lineage.reader import is_by_names
from arco.state.snapshot import Snapshot


def note_older_version(session: Session, snapshot: Snapshot) -> None:
    """Note on stderr that tables may lack what older versions recorded."""
    if not is_by_names(snapshot):
        return
    if session.generation is None and session.as_of is None and session.as_of_run is None:
        render.note("this workspace was written by an older version: run `servo admin rebuild`")
        return
    render.note(
        f"generation {snapshot.generation} was written by an older version, and some information "
        "may be missing; `servo admin rebuild` creates a complete generation"
    )
