"""`servo admin snapshot`, `merge` and `rollback`: show and create generations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from arco.cli import deferral
from arco.cli.options import Reason, argument, command, flag, option

if deferral.LOADED:
    from arco.app import Workspace
    from arco.cli import render
    from arco.cli.session import Session
    from arco.errors import Invalid
    from arco.log.contents import TableFiles
    from arco.log.head import KeptGenerations
    from arco.log.manifest import FileRef, RootManifest
    from arco.log.publish import left_to_delete
    from arco.state.snapshot import Snapshot


LEVELS = ("base", "l0", "history")


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
        int | None, option("N", "List the last N generations instead.", min=1)
    ] = None,
) -> None:
    """Show one generation: log position and files of tables."""
    workspace = session.open()
    opened = workspace.read.snapshot(session.at())
    if history is not None:
        _show_history(session, _generations(workspace, opened, history))
    else:
        _show_one(session, opened)


def _show_one(session: Session, snapshot: Snapshot) -> None:
    described = describe(snapshot)
    if session.json:
        render.document(described)
        return
    manifest = snapshot.head.manifest
    pending = len(left_to_delete(snapshot.head))
    render.show_fields(
        {
            "generation": f"{manifest.generation} ({manifest.kind})",
            "published": manifest.published_at if manifest.generation else "never",
            "position": manifest.position,
            "log time": manifest.log_time if manifest.position else "never",
            "segment": manifest.segment and manifest.segment.path,
            "consumed": render.count(len(manifest.consumed), "batch", "batches"),
            "pending cleanup": render.count(pending, "batch", "batches"),
            "skipped": ", ".join(f"{n} × {kind}" for kind, n in manifest.skipped.items()) or "none",
            "rejected": ", ".join(manifest.rejected) or "none",
        }
    )
    if described["tables"]:
        headers = ("table", "base", "l0", "history", "files", "bytes")
        rows = [
            (
                t["table"],
                *(t[level]["rows"] for level in LEVELS),
                t["files"],
                render.size(t["bytes"]) if t["bytes"] else None,  # in files that tables share
            )
            for t in described["tables"]
        ]
        render.show_table(headers, rows, right=headers[1:], title="rows by level")


def describe(snapshot: Snapshot) -> dict[str, Any]:
    """A generation as JSON."""
    manifest, picked = snapshot.head.manifest, render.picked
    return {
        **picked(manifest, "generation", "kind", "published_at", "position", "log_time"),
        "commit_id": manifest.commit_id,
        "sha256": snapshot.head.sha256,
        **picked(manifest, "parent_sha256", "segment", "consumed", "pending_cleanup"),
        **picked(manifest, "skipped", "rejected"),
        "change_files": [picked(ref, "path", "bytes", "rows") for ref in manifest.changes],
        "tables": [_table(name, table) for name, table in snapshot.tables().items()],
    }


def _table(name: str, table: TableFiles) -> dict[str, Any]:
    return {
        "table": name,
        "base": _level(table.base),
        "l0": _level(table.l0),
        "history": _level(table.history),
        "files": len(table.files()),
        "bytes": sum(ref.bytes for ref in table.files() if not ref.table),
    }


def _level(refs: tuple[FileRef, ...]) -> dict[str, int]:
    return {
        "files": len(refs),
        "rows": sum(ref.rows for ref in refs),
        "bytes": sum(ref.bytes for ref in refs if not ref.table),
    }


def _generations(workspace: Workspace, newest: Snapshot, count: int) -> Iterator[RootManifest]:
    """The newest first, down to the oldest that is kept."""
    numbers = KeptGenerations(workspace.manifests.floor(), newest.generation)
    for at in range(len(numbers) - 1, max(len(numbers) - 1 - count, -1), -1):
        if (generation := workspace.manifests.find(numbers[at])) is not None:
            yield generation.manifest


def _show_history(session: Session, manifests: Iterator[RootManifest]) -> None:
    rows = [_summary(manifest) for manifest in manifests]
    if session.json:
        render.document({"generations": rows})
        return
    headers = ("generation", "kind", "published", "position", "events", "batches", "")
    right = ("generation", "position", "events", "batches")
    values = [(*list(row.values())[:-2], _remarks(row)) for row in rows]
    render.show_table(headers, values, right=right, whole=["kind", "published"])


def _remarks(row: dict[str, Any]) -> str:
    return ", ".join(f"{row[what]} {what}" for what in ("rejected", "skipped") if row[what])


def _summary(manifest: RootManifest) -> dict[str, Any]:
    segment = manifest.segment
    return {
        **render.picked(manifest, "generation", "kind", "published_at", "position"),
        "events": segment.last - segment.first + 1 if segment else 0,
        "batches": len(manifest.consumed),
        "rejected": len(manifest.rejected),
        "skipped": sum(manifest.skipped.values()),
    }


def merge(
    session: Session,
    everything: Annotated[
        bool, flag("--all", "Merge all tables into base files, due or not.")
    ] = False,
) -> None:
    """Rewrite small table files into fewer, larger ones.

    Rows do not change. Without --all, only tables that are due are merged.
    """
    head = session.open().upkeep.merger.merge(everything=everything)
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
    generation: Annotated[int, argument("GENERATION", "The generation to return to.", min=1)],
    reason: Reason,
) -> None:
    """Publish the state of an older generation as a new one.

    Nothing is lost: later events stay in the log, marked as rolled back. A rollback
    can itself be rolled back.
    """
    if not reason.strip():
        raise Invalid("the reason is empty", hint="give --reason TEXT; it is stored in the log")
    workspace = session.open()
    head = workspace.upkeep.rollback(generation, reason=reason, actor=session.who())
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
