"""`servo admin init`: can this store be trusted with a workspace?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arco.cli.options import command
from arco.cli.session import Session
from arco.errors import AlreadyExists

if TYPE_CHECKING:
    from arco.config import Config

CHECKS = (
    "an object can be created",
    "a second create of the same path is refused",
    "reading it gives the bytes of the first",
    "it can be deleted",
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
        bool, typer.Option("--save", help="Write arco.toml here, so that --store is not needed.")
    ] = False,
) -> None:
    """Check that a store can hold a workspace.

    Everything relies on one thing: that an object is created only if it is
    absent. The check makes one object, and removes it. A workspace has no other
    beginning than its first event.
    """
    from arco.cli import render
    from arco.storage.open import probe

    config = session.config()
    target = _to_save(config) if save else None
    workspace = session.open(create=True)
    probe(workspace.store, workspace.ids())
    generation = workspace.snapshot().generation
    if target is not None:
        _write(target, config)
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
    state = f"at generation {generation}" if generation else "empty: its first event begins it"
    render.say(f"workspace {config.tenant}/{config.workspace} at {workspace.store.url}")
    render.say(f"it is {state}")
    if target is not None:
        render.say(f"wrote {target}")


def _to_save(config: Config) -> Path:
    from arco.config import FILE

    path = Path.cwd() / FILE
    if path.exists():
        raise AlreadyExists(f"{path} exists already", hint="edit it, or remove it first")
    return path


def _write(path: Path, config: Config) -> None:
    from arco.config import render

    path.write_text(render(config), "utf-8")
