"""`servo admin snapshot`, `merge` and `rollback`: generations, and making new ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arco.cli.options import command
from arco.cli.session import Session
from arco.errors import Invalid

if TYPE_CHECKING:
    from arco.app import Workspace
    from arco.log.manifest import FileRef, RootManifest, TableManifest
    from arco.state.snapshot import Snapshot


LEVELS = ("base", "l0", "history")
SUMMARY = (
    "generation",
    "kind",
    "published_at",
    "position",
    "events",
    "batches",
    "rejected",
    "skipped",
)


def register(app: typer.Typer) -> None:
    command(
        app,
        "snapshot",
        example="servo admin snapshot\n"
        "servo admin snapshot --as-of 2h\n"
        "servo admin snapshot --history 20",
        takes=["at"],
    )(snapshot)
    command(app, "merge", example="servo admin merge --all")(merge)
    command(
        app,
        "rollback",
        example="servo admin rollback 41 --reason 'deployed to the wrong workspace'",
        takes=["actor"],
    )(rollback)


def snapshot(
    session: Session,
    history: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="List the last N generations instead."),
    ] = None,
) -> None:
    """Show one generation: its position, and the files of its tables."""
    workspace = session.open()
    found = workspace.snapshot(session.at())
    if history is not None:
        _show_history(session, _generations(workspace, found, history))
    else:
        _show_one(session, found)


def _show_one(session: Session, found: Snapshot) -> None:
    from arco.cli import render

    described = describe(found)
    if session.json:
        render.document(described)
        return
    manifest = found.head.manifest
    render.show(
        render.fields(
            {
                "generation": f"{manifest.generation} ({manifest.kind})",
                "published": manifest.published_at if manifest.generation else "never",
                "position": manifest.position,
                "log time": manifest.log_time if manifest.position else "never",
                "segment": manifest.segment and manifest.segment.path,
                "consumed": render.count(len(manifest.consumed), "batch", "batches"),
                "pending cleanup": render.count(len(manifest.pending_cleanup), "batch", "batches"),
                "skipped": _skipped(manifest),
                "rejected": ", ".join(manifest.rejected) or "none",
            }
        )
    )
    if described["tables"]:
        headers = ("table", "base", "l0", "history", "files", "bytes")
        rows = [
            (
                t["table"],
                *(t[level]["rows"] for level in LEVELS),
                t["files"],
                render.size(t["bytes"]),
            )
            for t in described["tables"]
        ]
        render.show(render.title("rows by level"), render.table(headers, rows, right=headers[1:]))


def describe(found: Snapshot) -> dict[str, Any]:
    """A generation as JSON."""
    manifest = found.head.manifest
    return {
        "generation": manifest.generation,
        "kind": manifest.kind,
        "published_at": manifest.published_at,
        "position": manifest.position,
        "log_time": manifest.log_time,
        "commit_id": manifest.commit_id,
        "sha256": found.head.sha256,
        "parent_sha256": manifest.parent_sha256,
        "segment": manifest.segment,
        "consumed": manifest.consumed,
        "pending_cleanup": manifest.pending_cleanup,
        "skipped": manifest.skipped,
        "rejected": manifest.rejected,
        "tables": [_table(name, table) for name, table in found.tables().items()],
    }


def _table(name: str, table: TableManifest) -> dict[str, Any]:
    return {
        "table": name,
        "base": _level(table.base),
        "l0": _level(table.l0),
        "history": _level(table.history),
        "files": len(table.files()),
        "bytes": sum(ref.bytes for ref in table.files()),
    }


def _level(refs: tuple[FileRef, ...]) -> dict[str, int]:
    return {
        "files": len(refs),
        "rows": sum(ref.rows for ref in refs),
        "bytes": sum(ref.bytes for ref in refs),
    }


def _skipped(manifest: RootManifest) -> str:
    return ", ".join(f"{n} × {kind}" for kind, n in manifest.skipped.items()) or "none"


def _generations(workspace: Workspace, newest: Snapshot, count: int) -> Iterator[RootManifest]:
    """The newest first, down to the oldest that is kept."""
    floor = workspace.manifests.floor()
    for number in range(newest.generation, max(newest.generation - count, floor - 1, 0), -1):
        if (found := workspace.manifests.find(number)) is not None:
            yield found.manifest


def _show_history(session: Session, manifests: Iterator[RootManifest]) -> None:
    from arco.cli import render

    rows = [_summary(manifest) for manifest in manifests]
    if session.json:
        render.document({"generations": rows})
        return
    headers = ("generation", "kind", "published", "position", "events", "batches", "")
    right = ("generation", "position", "events", "batches")
    values = [(*list(row.values())[:-2], _remarks(row)) for row in rows]
    render.show(render.table(headers, values, right=right, whole=["kind", "published"]))


def _remarks(row: dict[str, Any]) -> str:
    return ", ".join(f"{row[what]} {what}" for what in ("rejected", "skipped") if row[what])


def _summary(manifest: RootManifest) -> dict[str, Any]:
    segment = manifest.segment
    values = (
        manifest.generation,
        manifest.kind,
        manifest.published_at,
        manifest.position,
        segment.last - segment.first + 1 if segment else 0,
        len(manifest.consumed),
        len(manifest.rejected),
        sum(manifest.skipped.values()),
    )
    return dict(zip(SUMMARY, values, strict=True))


def merge(
    session: Session,
    everything: Annotated[
        bool, typer.Option("--all", help="Merge all tables into their base, due or not.")
    ] = False,
) -> None:
    """Rewrite small table files into fewer, larger ones.

    The rows stay the same. Without --all, only what is due is merged.
    """
    from arco.cli import render

    head = session.open().merger.merge(everything=everything)
    generation = None if head is None else head.generation
    if session.json:
        render.document({"generation": generation})
    elif generation is not None:
        render.say(f"merged in generation {generation}")
    elif everything:
        render.say("nothing to merge: no table has L0 files")
    else:
        render.say("nothing is due; --all merges everything")


def rollback(
    session: Session,
    generation: Annotated[int, typer.Argument(min=1, help="Whose state to go back to.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is kept in the log.")],
) -> None:
    """Publish the state of an older generation as a new one.

    Nothing is lost: the log keeps what came after it, marked as taken back, and
    a rollback can itself be rolled back.
    """
    from arco.cli import render

    if not reason.strip():
        raise Invalid("the reason is empty", hint="say why: it is kept in the log")
    workspace = session.open()
    head = workspace.rollback(generation, reason=reason, actor=session.who())
    manifest = head.manifest
    if session.json:
        render.document(
            {
                "generation": manifest.generation,
                "rolled_back_to": generation,
                "position": manifest.position,
            }
        )
    else:
        render.say(f"generation {manifest.generation} has the state of generation {generation}")
        render.say(f"undo it with: servo admin rollback {manifest.generation - 1} --reason ...")
