"""`servo admin pin`, `unpin` and `pins`: generations that GC must keep."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from arco.cli.options import command
from arco.cli.session import Session
from arco.errors import Invalid, NotFound


def register(app: typer.Typer) -> None:
    command(
        app, "pin", example="servo admin pin before-migration 120 --reason 'quarter end' --days 90"
    )(pin)
    command(app, "unpin", example="servo admin unpin before-migration")(unpin)
    command(app, "pins", example="servo admin pins")(pins)


def pin(
    session: Session,
    name: Annotated[str, typer.Argument(help="Letters, digits, - and _.")],
    generation: Annotated[int, typer.Argument(min=1, help="What to keep.")],
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for whoever finds it.")],
    days: Annotated[
        float | None,
        typer.Option(min=0.001, max=36_500, metavar="DAYS", help="For how long; else for good."),
    ] = None,
) -> None:
    """Keep a generation, whatever GC's retention says. A pin of that name is replaced."""
    from arco.cli import render

    if not reason.strip():
        raise Invalid("the reason is empty", hint="say why, for whoever finds the pin")
    ttl = None if days is None else timedelta(days=days)
    made = session.open().pins.pin(name, generation, reason, ttl=ttl)
    if session.json:
        render.document(made)
    else:
        until = "for good" if made.expires_at is None else f"until {render.cell(made.expires_at)}"
        render.say(f"pinned generation {generation} as {name}, {until}")


def unpin(session: Session, name: Annotated[str, typer.Argument(help="The pin's name.")]) -> None:
    """Release a pin; GC may then collect its generation."""
    from arco.cli import render

    found = session.open().pins
    names = sorted(p.name for p in found.all())
    if name not in names:
        known = f"there are: {', '.join(names)}" if names else "there are no pins"
        raise NotFound(f"there is no pin {name}", hint=known)
    found.release(name)
    if session.json:
        render.document({"released": name})
    else:
        render.say(f"released {name}")


def pins(session: Session) -> None:
    """List the pins, those that have expired too."""
    from arco.cli import render

    workspace = session.open()
    found = sorted(workspace.pins.all(), key=lambda p: (p.generation, p.name))
    active = {p.name for p in workspace.pins.active()}
    if session.json:
        render.document({"pins": [render.plain(p) | {"active": p.name in active} for p in found]})
        return
    if not found:
        render.say("there are no pins")
        return
    rows = [(p.name, p.generation, _until(p.expires_at, p.name in active), p.reason) for p in found]
    headers = ("name", "generation", "until", "reason")
    render.show(render.table(headers, rows, right=["generation"], whole=["until"]))


def _until(expires_at: object, active: bool) -> object:
    if expires_at is None:
        return "for good"
    return expires_at if active else "expired"
