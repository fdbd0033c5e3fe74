"""`servo admin rejected`: batches that could not be read; shows them and puts them back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from arco.cli import deferral
from arco.cli.options import argument, command, flag

if deferral.LOADED:
    import msgspec

    from arco.app import Workspace
    from arco.cli import render
    from arco.cli.session import Session
    from arco.errors import Conflict, Corrupt, Invalid, NotFound
    from arco.log.envelope import MAX_BATCH_BYTES, decode_batch, encode_batch
    from arco.log.inbox import Rejection, read_rejection
    from arco.storage import paths
    from arco.storage.port import Mode
    from arco.storage.unique_objects import put_own


def register(app: typer.Typer) -> None:
    command(
        app,
        "rejected",
        example="servo admin rejected\n"
        "servo admin rejected 6f1ed002ab559585\n"
        "servo admin rejected 6f1ed002ab559585 --requeue",
    )(rejected)


def rejected(
    session: Session,
    key: Annotated[str | None, argument("KEY", "Show this object in full.")] = None,
    requeue: Annotated[
        bool, flag("--requeue", "Put it into the inbox again, if it can be read now.")
    ] = False,
) -> None:
    """List the inbox objects that were rejected, with the reasons.

    If one event of a batch cannot be read, the whole batch is rejected. The object is
    kept unchanged for 30 days.
    """
    workspace = session.open()
    if key is None:
        if requeue:
            raise Invalid("--requeue needs the key of an object", hint="see: servo admin rejected")
        _list(session, list(_all(workspace)))
    elif requeue:
        _requeue(session, workspace, _one(workspace, key))
    else:
        _show(session, workspace, _one(workspace, key))


def _all(workspace: Workspace) -> Iterator[Rejection]:
    for meta in workspace.store.list(paths.REJECTED):
        if meta.path.endswith(".json"):
            yield read_rejection(workspace.store, meta.path)


def _one(workspace: Workspace, key: str) -> Rejection:
    """By its key, or by the name that the object had in the inbox."""
    try:
        return read_rejection(workspace.store, paths.rejection(key))
    except NotFound:
        for rejection in _all(workspace):
            if rejection.name == key:
                return rejection
    raise NotFound(f"there is no rejected object {key}", hint="see: servo admin rejected")


def _list(session: Session, rejections: list[Rejection]) -> None:
    if session.json:
        render.document({"rejected": rejections})
    elif not rejections:
        render.say("there are no rejected batches")
    else:
        rows = [(r.key, r.name, r.received_at, render.size(r.bytes), r.reason) for r in rejections]
        headers = ("key", "name", "received", "bytes", "reason")
        render.show_table(headers, rows, right=["bytes"], whole=["key", "received"])


def _show(session: Session, workspace: Workspace, rejection: Rejection) -> None:
    body = _body(workspace, rejection)
    text = body.decode("utf-8", "backslashreplace")
    if session.json:
        render.document(render.plain(rejection) | {"body": text})
        return
    fields = {
        "key": rejection.key,
        "name": rejection.name,
        "received": rejection.received_at,
        "bytes": render.size(rejection.bytes),
        "reason": rejection.reason,
    }
    render.show_fields(fields)
    render.show_title("body")
    render.say(text)
    if len(body) < rejection.bytes:
        render.say(f"… and {render.size(rejection.bytes - len(body))} more", "yellow")


def _body(workspace: Workspace, rejection: Rejection) -> bytes:
    """The object's bytes, up to the maximum size of a batch."""
    length = min(rejection.bytes, MAX_BATCH_BYTES)
    return workspace.store.get_range(paths.rejected_object(rejection.key), 0, length)


def _is_in_the_log(workspace: Workspace, rejection: Rejection) -> bool:
    """Whether a commit consumed a batch that another process had rejected."""
    names = {paths.inbox_name(meta.path) for meta in workspace.store.list(paths.INBOX)}
    head = workspace.manifests.head()  # after the look at the inbox
    if rejection.name in names and rejection.name not in head.manifest.pending_cleanup:
        raise Conflict(
            f"{rejection.name} is still in the inbox",
            hint="wait until it is committed, then run this again",
        )
    return bool(workspace.projector.consumed(head, [rejection.name]))


def _forget(workspace: Workspace, rejection: Rejection) -> None:
    workspace.store.delete(paths.rejection(rejection.key))
    workspace.store.delete(paths.rejected_object(rejection.key))


def _requeue(session: Session, workspace: Workspace, rejection: Rejection) -> None:
    """Put first, then delete: a batch that is put twice under one name is consumed once."""
    body = _body(workspace, rejection)
    try:
        if len(body) < rejection.bytes:
            raise Corrupt(f"it has {rejection.bytes} bytes, more than a batch may have")
        batch = decode_batch(body, workspace.tenant, workspace.name, rejection.name)
        for event in batch.events:
            workspace.core.types.decode(event.type, event.version, event.data)
    except Corrupt as error:
        raise Invalid(
            f"{rejection.name} still cannot be read: {error.message}",
            hint="fix the program that wrote it, and append the events again",
        ) from None
    if _is_in_the_log(workspace, rejection):
        _forget(workspace, rejection)
        raise Conflict(
            f"batch {rejection.name} is in the log: it was rejected because of a failed read",
            hint="there is nothing to do; the rejected object was removed",
        )
    # Under its old name a commit may still take it for the rejected one, and delete it.
    requeued = msgspec.structs.replace(batch, batch=f"{batch.batch}-1")
    put_own(workspace.store, paths.inbox(requeued.batch), encode_batch(requeued), mode=Mode.CREATE)
    _forget(workspace, rejection)
    if session.json:
        render.document(
            {"requeued": rejection.key, "name": requeued.batch, "events": len(batch.events)}
        )
    else:
        events = render.count(len(batch.events), "event")
        render.say(f"{events} of {rejection.name} are in the inbox again, as {requeued.batch}")
