"""`servo admin backup` and `restore`."""

from __future__ import annotations

from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import argument, command, flag, option

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.progress import progress
    from arco.cli.session import Session, require_directory
    from arco.config import Config
    from arco.state.backup import CopyReport


def register(app: typer.Typer) -> None:
    command(app, "backup", example="servo admin backup s3://backups/arco --data")(backup)
    command(app, "restore", example="servo admin restore s3://backups/arco --store ./empty")(
        restore
    )


def backup(
    session: Session,
    target: Annotated[str, argument("TARGET_URL", "The store to copy to.")],
    data: Annotated[bool, flag("--data", "Also copy the data files of assets.")] = False,
) -> None:
    """Copy the newest generation to another store.

    The backup includes the whole log, deployed projects and plans. The inbox is
    committed first. Files that the target already has are not copied again: a
    second backup to the same place copies only what is new.

    Never copied: logs of tasks, queues, and signing keys.
    """
    workspace = session.open()
    place = session.beside(target)
    with progress() as report:
        copied = workspace.upkeep.backup(place, data=data, progress=report)
    _show(session, copied, "backed up", place.url)


def restore(
    session: Session,
    source: Annotated[str, argument("SOURCE_URL", "The store with the backup.")],
    generation: Annotated[
        int | None, option("N", "Restore this generation; default: the newest backup.", min=1)
    ] = None,
) -> None:
    """Fill an empty workspace from a backup.

    The backup must be of a workspace with the same tenant and name. Data files are
    restored if the backup was made with --data. Logs of tasks, queues and signing
    keys are never restored.
    """
    config = session.config()
    require_directory(Config(source, config.tenant, config.workspace))
    place = session.beside(source)
    workspace = session.open(create=True)
    with progress() as report:
        copied = workspace.upkeep.restore(place, generation=generation, progress=report)
    _show(session, copied, "restored", workspace.store.url)


def _show(session: Session, copied: CopyReport, what: str, url: str) -> None:
    if session.json:
        render.document({"url": url} | render.plain(copied))
        return
    files = f"{render.count(copied.copied, 'file')} copied ({render.size(copied.copied_bytes)})"
    render.say(f"{what} generation {copied.generation}, log up to position {copied.position}")
    render.say(f"{files}, {copied.present:,} already present")
    render.say(url)
