"""Results that fit into the log. A result that is too large is truncated, and stored completely
beside the output's files.

Called before the commit marker is created. The marker then holds the bounded result, so
that whoever adopts the output reports the same.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
from msgspec.structs import replace

from arco.orchestration.results import UNRECORDED, UNRECORDED_HINT, TooLarge, bounded
from arco.storage import paths
from arco.storage.port import Store
from arco.storage.unique_objects import put_own
from arco.worker.failures import failed
from servo.contract import canonical
from servo.contract.task import ErrorInfo, ObjectRef, OutputCommit, TaskRequest, TaskResult


def recordable(store: Store, result: TaskResult) -> TaskResult:
    """The result, truncated to fit into one event. Raises TaskFailed if that is not possible."""
    try:
        cut = bounded(result)
    except TooLarge as error:
        raise failed(
            "user_code",
            UNRECORDED,
            f"the output cannot be recorded: {error.message}",
            UNRECORDED_HINT,
        ) from None
    if not cut.truncated or result.materialization is None or cut.materialization is None:
        return cut
    body = canonical.encode(commit_of(result))
    digest = hashlib.sha256(body).hexdigest()
    path = paths.output_details(result.materialization.path, digest)
    put_own(store, path, body)
    version = replace(cut.materialization, details=ObjectRef(path, digest, len(body)))
    return replace(cut, materialization=version)


def commit_of(result: TaskResult) -> OutputCommit:
    """The body of the commit marker of a result that has an output."""
    return OutputCommit(**{name: getattr(result, name) for name in OutputCommit.__struct_fields__})


# -- results ------------------------------------------------------------------------------


def result_of(request: TaskRequest, worker_id: str, **fields: Any) -> TaskResult:
    return TaskResult(
        run_id=request.run_id,
        task_id=request.task_id,
        attempt=request.attempt,
        attempt_id=request.attempt_id,
        worker_id=worker_id,
        **fields,
    )


def committed_result(
    request: TaskRequest, worker_id: str, commit: OutputCommit, *, adopted: bool
) -> TaskResult:
    return result_of(
        request, worker_id, outcome="succeeded", adopted=adopted, **msgspec.structs.asdict(commit)
    )


def failed_result(
    request: TaskRequest, worker_id: str, error: ErrorInfo, **fields: Any
) -> TaskResult:
    outcome = "cancelled" if error.category == "cancelled" else "failed"
    return result_of(request, worker_id, outcome=outcome, error=error, **fields)
