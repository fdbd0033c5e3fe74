"""The differences of two versions, as a document or a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rich.text import Text

from arco.cli import render
from arco.cli.session import Session

C = TypeVar("C")


def show_version_changes(
    session: Session,
    generation: int,
    asset: str,
    versions: tuple[object, object],
    changes: Sequence[C],
    plain: Callable[[C], dict[str, object]],
    breaks: Callable[[C], Text],
) -> None:
    before, after = versions
    if session.json:
        render.document(
            {
                "generation": generation,
                "asset": asset,
                "from": before,
                "to": after,
                "changes": [plain(each) for each in changes],
            }
        )
        return
    render.say(f"{asset}: version {before} to {after}", "bold")
    if not changes:
        render.say("no differences")
        return
    render.show_table(("change", "breaks"), [(str(each), breaks(each)) for each in changes])
