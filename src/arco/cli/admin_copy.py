"""`servo admin backup` and `restore`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from arco.cli.options import command
from arco.cli.session import Session, require_directory

if TYPE_CHECKING:
    from arco.state.backup import CopyReport


def register(app: typer.Typer) -> None:
    command(app, "backup", example="servo admin backup s3://backups/arco --data")(backup)
    command(
        app,
        "restore",
        example="servo admin restore s3://backups/arco --store ./empty",
    )(restore)


def backup(
    session: Session,
    target: Annotated[str, typer.Argument(metavar="TARGET_URL", help="Another store.")],
    data: Annotated[
        bool, typer.Option("--data", help="Copy also the data that assets have written.")
    ] = False,
) -> None:
    """Copy the newest generation to another store.

    The whole log goes with it, and so do deployed projects and plans. What waits
    in the inbox is committed first. What is there already is not copied again: a
    second backup to the same place copies what is new.

    Left out, always: what tasks have logged, what waits in queues, and keys.
    """
    from arco.cli.progress import progress

    workspace = session.open()
    place = session.beside(target)
    with progress() as report:
        copied = workspace.backup(place, data=data, progress=report)
    _show(session, copied, "backed up", place.url)


def restore(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="SOURCE_URL", help="Where the backup is.")],
    generation: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="An older backup at the same place.")
    ] = None,
) -> None:
    """Fill an empty workspace from a backup.

    The backup is of a workspace with the same tenant and name. Data comes back
    if it was made with --data; what tasks have logged, queues and keys never do.
    """
    from arco.cli.progress import progress
    from arco.config import Config

    config = session.config()
    require_directory(Config(source, config.tenant, config.workspace))
    place = session.beside(source)
    workspace = session.open(create=True)
    with progress() as report:
        copied = workspace.restore(place, generation=generation, progress=report)
    _show(session, copied, "restored", workspace.store.url)


def _show(session: Session, copied: CopyReport, what: str, url: str) -> None:
    from arco.cli import render

    if session.json:
        render.document({"url": url} | render.plain(copied))
        return
    files = f"{render.count(copied.copied, 'file')} copied ({render.size(copied.copied_bytes)})"
    render.say(f"{what} generation {copied.generation}, log up to position {copied.position}")
    render.say(f"{files}, {copied.present:,} there already")
    render.say(url)
