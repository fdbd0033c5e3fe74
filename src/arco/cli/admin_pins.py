"""`servo admin pin`, `unpin` and `pins`: generations that GC must keep."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import argument, command, option

if deferral.LOADED:
    from arco.cli import render
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
    name: Annotated[str, argument("NAME", "The pin's name: letters, digits, - and _.")],
    generation: Annotated[int, argument("GENERATION", "The generation to keep.", min=1)],
    reason: Annotated[str, option("TEXT", "Reason, stored with the pin.")],
    days: Annotated[
        float | None,
        option("DAYS", "Days until the pin expires; default: never.", min=0.001, max=36_500),
    ] = None,
) -> None:
    """Keep a generation regardless of retention. Replaces a pin of the same name."""
    if not reason.strip():
        raise Invalid("the reason is empty", hint="give --reason TEXT; it is stored with the pin")
    ttl = None if days is None else timedelta(days=days)
    created = session.open().upkeep.pins.pin(name, generation, reason, ttl=ttl)
    if session.json:
        render.document(created)
    else:
        until = (
            "with no expiry"
            if created.expires_at is None
            else f"until {render.cell(created.expires_at)}"
        )
        render.say(f"pinned generation {generation} as {name}, {until}")


def unpin(session: Session, name: Annotated[str, argument("NAME", "The pin's name.")]) -> None:
    """Remove a pin; GC may then remove its generation."""
    pins = session.open().upkeep.pins
    names = sorted(p.name for p in pins.all())
    if name not in names:
        hint = f"there are: {', '.join(names)}" if names else "there are no pins"
        raise NotFound(f"there is no pin {name}", hint=hint)
    pins.release(name)
    if session.json:
        render.document({"released": name})
    else:
        render.say(f"removed pin {name}")


def pins(session: Session) -> None:
    """List all pins, including expired ones."""
    workspace = session.open()
    all_pins = sorted(workspace.upkeep.pins.all(), key=lambda p: (p.generation, p.name))
    active = {p.name for p in workspace.upkeep.pins.active()}
    if session.json:
        render.document(
            {"pins": [render.plain(p) | {"active": p.name in active} for p in all_pins]}
        )
        return
    if not all_pins:
        render.say("there are no pins")
        return
    rows = [
        (p.name, p.generation, _until(p.expires_at, p.name in active), p.reason) for p in all_pins
    ]
    headers = ("name", "generation", "until", "reason")
    render.show_table(headers, rows, right=["generation"], whole=["until"])


def _until(expires_at: object, active: bool) -> object:
    if expires_at is None:
        return "with no expiry"
    return expires_at if active else "expired"
