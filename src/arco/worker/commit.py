"""The commit of an output: of several attempts of a task, exactly one wins.

1. An attempt writes its files under a folder named by its materialization id, which
   nobody else writes to. Until the marker is there, nobody reads them.
2. It creates the marker, `commits/{run}/{task}.json`, only if it is absent. That is the commit. The
   marker's body is the output with its checks, gate and lineage: an attempt that adopts it reports
   the same.
3. If the marker exists, or the outcome is unknown (a timeout), it reads the marker. With its own
   id, it has won. Otherwise it adopts that output as its result; GC deletes its own files.

An attempt that may not be the first reads the marker before it starts, so that a redelivery of a
finished task reports the committed output.
"""

from __future__ import annotations

from typing import Final

import msgspec

from arco.errors import AlreadyExists, Corrupt, NotFound, Unavailable
from arco.storage import paths
from arco.storage.port import Store
from arco.storage.seal import read_checked, seal, unseal
from servo.contract import canonical
from servo.contract.task import OutputCommit, TaskRequest

ATTEMPTS: Final = 4

_decoder = msgspec.json.Decoder(OutputCommit)


def commit_output(
    store: Store, request: TaskRequest, commit: OutputCommit
) -> tuple[OutputCommit, bool]:
    """The task's output, and whether it is another attempt's. Unavailable if unknown."""
    path = _marker(request)
    body = seal(canonical.encode(commit))
    unknown: Unavailable | None = None
    for _ in range(ATTEMPTS):
        try:
            store.put(path, body)
            return commit, False
        except (AlreadyExists, Unavailable) as error:
            try:
                winner = committed(store, request)
            except Unavailable as again:
                unknown = again
                continue
            if winner is not None:
                return winner, _id(winner) != _id(commit)
            unknown = error if isinstance(error, Unavailable) else None
    raise unknown or Unavailable(
        f"marker {path} was deleted while committing",
        hint="check what deletes objects in the store",
    )


def committed(store: Store, request: TaskRequest) -> OutputCommit | None:
    """What an attempt of this task has committed, if one has. Anything unreadable is Corrupt."""
    path = _marker(request)
    try:
        commit = read_checked(store, path, lambda raw: _decode(raw, path))
    except NotFound:
        return None
    output = commit.materialization
    if (output.run_id, output.task_id) != (request.run_id, request.task_id):
        raise Corrupt(f"{path} is the marker of another task")
    return commit


def _decode(raw: bytes, path: str) -> OutputCommit:
    try:
        return _decoder.decode(unseal(raw, path))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Corrupt(f"{path} is not a commit marker: {error}") from None


def _id(commit: OutputCommit) -> str:
    return commit.materialization.materialization_id


def _marker(request: TaskRequest) -> str:
    return paths.output_commit(request.run_id, request.task_id)
