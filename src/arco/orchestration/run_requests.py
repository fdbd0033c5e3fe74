"""The fold of run keys and of requests for runs: a key leads to at most one run.

A request is PENDING until an orchestrator has planned it. `RunTriggered` with its key makes it
TRIGGERED, `RunRequestRefused` or a withdrawal REFUSED. The first of these in the log decides and
uses the key; later ones change nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from arco.errors import Invalid
from arco.orchestration.derived import RunRequestDropped
from arco.orchestration.events import (
    RefusalCode,
    RunRequested,
    RunRequestRefused,
    RunRequestWithdrawn,
)
from arco.orchestration.limit_events import RunPermitted
from arco.orchestration.packing import pack, unpack
from arco.orchestration.plan import PlanRequest, normalised
from arco.orchestration.runs import RunAdmitted
from arco.orchestration.states import AUTOMATIC, RequestState
from arco.orchestration.tables import RUN_KEYS, RUN_REQUESTS, RunKeyRow, RunRequestRow
from arco.state.copied_rows import row_from
from arco.state.fold import Change, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied, refused
from servo.contract import canonical

PLAIN_BYTES = 32 << 10
"""A larger request is packed."""
KEY_BYTES = 512
LISTED = 100
"""Maximum number of terms of a request that are in columns of their own."""

replace = msgspec.structs.replace
decode_request = functools.partial(msgspec.json.decode, type=PlanRequest)


class RunAsked(RunRequested, frozen=True, kw_only=True):
    """Derived: automation requests a run."""

    TYPE = "orchestration.run_asked"
    COMMAND = False


def check_run_key(run_key: str) -> None:
    """Raise Invalid for a key that a person may not give."""
    kind = run_key.partition(":")[0]
    if ":" in run_key and kind in AUTOMATIC:
        raise Invalid(
            f"run keys that begin with {kind}: are those of requests by {kind}",
            hint="choose another key",
        )
    if len(run_key.encode("utf-8", "replace")) > KEY_BYTES:
        raise Invalid(f"the run key is longer than {KEY_BYTES} bytes", hint="choose a shorter key")


def packed_request(request: PlanRequest) -> dict[str, Any]:
    """The fields of an event that hold a request."""
    raw = msgspec.json.encode(request)
    return {"request": request} if len(raw) <= PLAIN_BYTES else {"packed": pack(raw)}


def request_fingerprint(request: PlanRequest) -> str:
    """The same for requests that mean the same, in whatever order their terms are."""
    return canonical.fingerprint(normalised(request))


def _json(e: RunRequested) -> bytes:
    return unpack(e.packed) if e.packed else msgspec.json.encode(e.request)


def _request(rows: Rows, fact: Fact, e: RunRequested) -> Iterator[Change]:
    row = rows.get(RUN_REQUESTS, e.request_key)
    run_key = rows.get(RUN_KEYS, e.request_key)
    used = row if row is not None else run_key
    if used is not None and used.fingerprint != e.fingerprint:
        yield refused(
            fact, "run_key_conflict", f"run key {e.request_key!r} was used for another request"
        )
        return
    if row is None:
        yield from _ask(rows, fact, e)
    yield applied(fact)


def _ask(rows: Rows, fact: Fact, e: RunRequested) -> Iterator[Change]:
    before = rows.get(RUN_REQUESTS, e.request_key)
    if before is not None:
        if e.reference != before.reference:  # another cause, and not the same fact again
            reason = f"it was requested before, at {before.requested_at:%Y-%m-%d %H:%M}"
            again = replace(before, kind=e.kind, reference=e.reference)
            yield from _dropped(again, reason, "merged")
        return
    raw = _json(e)
    request = decode_request(raw)
    row = row_from(
        RunRequestRow,
        e,
        state=RequestState.PENDING,
        selection=list(request.selection[:LISTED]),
        partitions=list(request.partitions[:LISTED]),
        request=raw.decode(),
        reason="",
        hint="",
        requested_at=fact.received_at,
        requested_by=fact.actor,
        decided_at=None,
    )
    run_key = rows.get(RUN_KEYS, e.request_key)
    if run_key is not None:
        yield _decided(row, fact, RequestState.MERGED, run_key.run_id, _merge_reason(run_key))
        yield from _dropped(row, _merge_reason(run_key), "merged")
    else:
        yield Put(RUN_REQUESTS, row)


def _merge_reason(run_key: RunKeyRow) -> str:
    time = f"{run_key.received_at:%Y-%m-%d %H:%M}"
    if run_key.run_id:
        return f"run {run_key.run_id} was started under this key at {time}"
    return f"a request with this key was refused at {time}"


def _decided(
    row: RunRequestRow, fact: Fact, state: RequestState, run_id: str, reason: str, hint: str = ""
) -> Put:
    decided = replace(
        row, state=state, run_id=run_id, reason=reason, hint=hint, decided_at=fact.received_at
    )
    return Put(RUN_REQUESTS, decided)


def _withdraw(rows: Rows, fact: Fact, e: RunRequestWithdrawn) -> Iterator[Change]:
    row = rows.get(RUN_REQUESTS, e.request_key)
    if row is None:
        yield refused(fact, "request_not_found", f"there is no request {e.request_key}")
    elif row.state != RequestState.PENDING:
        yield refused(fact, "request_decided", f"request {e.request_key} is {row.state} already")
    else:
        yield from _refuse_pending(fact, row, e.reason or "withdrawn", "", "withdrawn")
        yield applied(fact)


def _refuse(rows: Rows, fact: Fact, e: RunRequestRefused) -> Iterator[Change]:
    row = rows.get(RUN_REQUESTS, e.request_key)
    if row is not None and row.state == RequestState.PENDING:
        yield from _refuse_pending(fact, row, e.reason, e.hint, e.code)


def _refuse_pending(
    fact: Fact, row: RunRequestRow, reason: str, hint: str, code: RefusalCode
) -> Iterator[Change]:
    yield Put(RUN_KEYS, RunKeyRow(row.request_key, "", row.fingerprint, fact.received_at))
    yield _decided(row, fact, RequestState.REFUSED, row.run_id, reason, hint)
    yield from _dropped(row, reason, code)


def _dropped(
    row: RunRequestRow, reason: str, code: RefusalCode | Literal["merged"]
) -> Iterator[Change]:
    if row.reference:
        yield Emit(
            RunRequestDropped(
                request_key=row.request_key,
                kind=row.kind,
                reference=row.reference,
                reason=reason,
                code=code,
            )
        )


def _trigger(rows: Rows, fact: Fact, permitted: RunPermitted) -> Iterator[Change]:
    e = permitted.trigger
    fact = replace(fact, payload=e)
    existing = rows.get(RUN_KEYS, e.run_key) if e.run_key else None
    request = rows.get(RUN_REQUESTS, e.run_key) if e.run_key else None
    if existing is not None and not existing.run_id:
        yield refused(
            fact, "request_refused", f"the request with the key {e.run_key!r} was refused"
        )
        return
    if existing is not None and existing.fingerprint != e.request_fingerprint:
        yield refused(
            fact,
            "run_key_conflict",
            f"run key {e.run_key!r} was used for another request, run {existing.run_id}",
        )
        return
    if request is not None and request.fingerprint != e.request_fingerprint:
        yield refused(
            fact, "run_key_conflict", f"run key {e.run_key!r} was used for another request"
        )
        return
    if existing is None:
        if e.run_key:
            row = RunKeyRow(e.run_key, e.run_id, e.request_fingerprint, fact.received_at)
            yield Put(RUN_KEYS, row)
        yield Emit(RunAdmitted(**{f: getattr(e, f) for f in e.__struct_fields__}))
        if request is not None and request.state == RequestState.PENDING:
            yield _decided(request, fact, RequestState.TRIGGERED, e.run_id, "")
    yield applied(fact)


def _by_run_key(fact: Fact, e: RunPermitted) -> str:
    return e.trigger.run_key or f"run:{e.trigger.run_id}"


_by_request = by("request_key")
STAGE = Stage(
    "run_keys",
    (RUN_KEYS, RUN_REQUESTS),
    (
        On(RunRequested, _by_request, _request),
        On(RunAsked, _by_request, _ask),
        On(RunRequestWithdrawn, _by_request, _withdraw),
        On(RunRequestRefused, _by_request, _refuse),
        On(RunPermitted, _by_run_key, _trigger),
    ),
)
