"""`servo admin rejected`: batches that could not be read, and a second chance for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from arco.cli.options import command
from arco.cli.session import Session
from arco.errors import Corrupt, Invalid, NotFound

if TYPE_CHECKING:
    from arco.app import Workspace
    from arco.log.inbox import Rejection


def register(app: typer.Typer) -> None:
    command(
        app,
        "rejected",
        example="servo admin rejected\n"
        "servo admin rejected 01M7GQ2FZDGSBWMPF1ARV76T90\n"
        "servo admin rejected 01M7GQ2FZDGSBWMPF1ARV76T90 --requeue",
    )(rejected)


def rejected(
    session: Session,
    name: Annotated[str | None, typer.Argument(help="Show this batch whole.")] = None,
    requeue: Annotated[
        bool,
        typer.Option("--requeue", help="Put it into the inbox again, if it can be read by now."),
    ] = False,
) -> None:
    """List the batches that were rejected, with the reasons.

    A batch is rejected whole if one of its events cannot be read. It is kept for
    30 days.
    """
    workspace = session.open()
    if name is None:
        if requeue:
            raise Invalid("--requeue needs the name of a batch", hint="see: servo admin rejected")
        _list(session, list(_all(workspace)))
    elif requeue:
        _requeue(session, workspace, _one(workspace, name))
    else:
        _show(session, _one(workspace, name))


def _all(workspace: Workspace) -> Iterator[Rejection]:
    from arco.log.inbox import Rejection
    from arco.log.manifest import decode
    from arco.storage import paths

    for meta in workspace.store.list(paths.REJECTED):
        yield decode(workspace.store.get(meta.path).data, Rejection, meta.path)


def _one(workspace: Workspace, name: str) -> Rejection:
    from arco.log.inbox import Rejection
    from arco.log.manifest import decode
    from arco.storage import paths

    path = paths.rejected(name)
    try:
        return decode(workspace.store.get(path).data, Rejection, path)
    except NotFound:
        raise NotFound(
            f"no rejected batch is called {name}", hint="see: servo admin rejected"
        ) from None


def _list(session: Session, found: list[Rejection]) -> None:
    from arco.cli import render

    if session.json:
        rows = [
            {"name": r.name, "received_at": r.received_at, "bytes": len(r.body), "reason": r.reason}
            for r in found
        ]
        render.document({"rejected": rows})
    elif not found:
        render.say("no batch was rejected")
    else:
        rows_ = [(r.name, r.received_at, render.size(len(r.body)), r.reason) for r in found]
        headers = ("name", "received", "bytes", "reason")
        render.show(render.table(headers, rows_, right=["bytes"], whole=["received"]))


def _show(session: Session, found: Rejection) -> None:
    from arco.cli import render

    if session.json:
        render.document(found)
        return
    shown = {"name": found.name, "received": found.received_at, "reason": found.reason}
    render.show(render.fields(shown), render.title(f"body ({render.size(len(found.body))})"))
    render.say(found.body.decode("utf-8", "backslashreplace"))


def _requeue(session: Session, workspace: Workspace, found: Rejection) -> None:
    """Put first, then delete: a crash between the two repeats events, which changes nothing."""
    import msgspec

    from arco.cli import render
    from arco.log.envelope import decode_batch, encode_batch
    from arco.storage import paths

    try:
        batch = decode_batch(found.body, workspace.tenant, workspace.name)
        for event in batch.events:
            workspace.types.decode(event.type, event.version, event.data)
    except Corrupt as error:
        raise Invalid(
            f"{found.name} still cannot be read: {error.message}",
            hint="fix the program that wrote it, and have it append the events again",
        ) from None
    new = msgspec.structs.replace(batch, batch=workspace.ids())
    workspace.store.put(paths.inbox(new.batch), encode_batch(new))
    workspace.store.delete(paths.rejected(found.name))
    if session.json:
        render.document({"requeued": found.name, "name": new.batch, "events": len(new.events)})
    else:
        events = render.count(len(new.events), "event")
        render.say(f"{events} of {found.name} are in the inbox again, as {new.batch}")
