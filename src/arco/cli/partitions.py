"""`servo partitions`: the keys of dynamic partition dimensions."""

from __future__ import annotations

from typing import Annotated

import typer

from arco.cli.options import command, group
from arco.cli.session import Session

app = group("partitions", "Keys of dynamic partition dimensions: add, remove, list.")

Set = Annotated[str, typer.Argument(metavar="SET", help="The name of the set of keys.")]
Keys = Annotated[list[str], typer.Argument(metavar="KEY...", help="The keys.")]


@command(app, "add", example="servo partitions add customers acme globex", takes=["actor"])
def add(session: Session, keys: Set, key: Keys) -> None:
    """Add keys to a set. Those it has stay as they are."""
    session.open().orchestration.change_partition_keys(keys, add=key)
    _answer(session, keys)


@command(app, "remove", example="servo partitions remove customers globex", takes=["actor"])
def remove(session: Session, keys: Set, key: Keys) -> None:
    """Take keys from a set. What was materialized for them stays."""
    session.open().orchestration.change_partition_keys(keys, remove=key)
    _answer(session, keys)


@command(app, "list", example="servo partitions list customers", takes=["at"])
def list_(session: Session, keys: Set) -> None:
    """List the keys of a set."""
    _answer(session, keys)


def _answer(session: Session, keys: str) -> None:
    from arco.cli import render
    from arco.orchestration.tables import DYNAMIC_KEYS

    rows = session.open().snapshot(session.at()).rows(DYNAMIC_KEYS, keys)
    if session.json:
        render.document({"keys": keys, "values": rows})
    elif not rows:
        render.say(f"{keys} has no keys")
    else:
        shown = [(row.key, row.added_at, row.added_by) for row in rows]
        render.show(render.table(("key", "added", "by"), shown))
