"""`servo admin init`: checks that a store can hold a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import command, flag

if deferral.LOADED:
    from arco.cli import render
    from arco.cli.session import Session
    from arco.config import FILE
    from arco.config import render as render_config
    from arco.errors import AlreadyExists, Invalid
    from arco.storage.open import probe

CHECKS = (
    "can create an object",
    "refuses a second create of the same path",
    "reads back the bytes of the first create",
    "can delete the object",
)


def register(app: typer.Typer) -> None:
    command(
        app,
        "init",
        example="servo admin init --store ./lake --save\n"
        "servo admin init --store s3://bucket/arco --tenant acme --workspace prod",
    )(init)


def init(
    session: Session,
    save: Annotated[
        bool, flag("--save", "Write arco.toml in this folder, so that --store is not needed.")
    ] = False,
) -> None:
    """Check that a store can hold a workspace.

    Arco requires a store that can create an object only if it does not exist. The check creates
    one object and deletes it. The workspace itself is created with its first event.

    To create a project, a folder with assets, see `servo init`.
    """
    config = session.config()
    target = _file_to_save() if save else None
    if config.directory is not None:
        _create(config.directory)
    workspace = session.open(create=True)
    probe(workspace.store, workspace.ids())
    generation = workspace.read.snapshot().generation
    if target is not None:
        target.write_text(render_config(config), "utf-8")
    if session.json:
        render.document(
            {
                "store": workspace.store.url,
                "tenant": config.tenant,
                "workspace": config.workspace,
                "checks": list(CHECKS),
                "generation": generation,
                "saved": None if target is None else str(target),
            }
        )
        return
    for check in CHECKS:
        render.say(f"  ok  {check}")
    state = (
        f"at generation {generation}"
        if generation
        else "empty; the first command that writes creates it"
    )
    render.say(f"workspace {config.tenant}/{config.workspace} at {workspace.store.url}")
    render.say(f"the workspace is {state}")
    if target is not None:
        render.say(f"wrote {target}")


def _create(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Invalid(
            f"a store cannot be created at {directory}: {error.strerror}",
            hint="give the path of a folder that you may write to, with --store",
        ) from None


def _file_to_save() -> Path:
    path = Path.cwd() / FILE
    if path.exists():
        hint = "write `store = ...` under [workspace] in it, or delete it first"
        raise AlreadyExists(f"{path} already exists", hint=hint)
    return path
