"""Orchestration's fold, in four stages.

deployments   one key for all: which manifest of each project holds (`deployments.py`)
dynamic_keys  one key for each set of partition keys
run_keys      one key for each run key: a trigger counts once
runs          one key for each run: everything about it (`runs.py`)
"""

from __future__ import annotations

from collections.abc import Iterator

from arco.orchestration.deployments import STAGE as DEPLOYMENTS_STAGE
from arco.orchestration.events import PartitionKeysChanged, RunTriggered
from arco.orchestration.runs import RUNS_STAGE, RunAdmitted
from arco.orchestration.tables import DYNAMIC_KEYS, RUN_KEYS, DynamicKeyRow, RunKeyRow
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage
from arco.state.system import applied, refused


def _change_keys(rows: Rows, fact: Fact, e: PartitionKeysChanged) -> Iterator[Change]:
    for key in e.added:
        if rows.get(DYNAMIC_KEYS, e.keys, key) is None:
            yield Put(DYNAMIC_KEYS, DynamicKeyRow(e.keys, key, fact.received_at, fact.actor))
    for key in e.removed:
        yield Delete(DYNAMIC_KEYS, (e.keys, key))
    yield applied(fact)


def _admit_run(rows: Rows, fact: Fact, e: RunTriggered) -> Iterator[Change]:
    existing = rows.get(RUN_KEYS, e.run_key) if e.run_key else None
    if existing is not None and existing.fingerprint != e.request_fingerprint:
        yield refused(
            fact,
            "run_key_conflict",
            f"run key {e.run_key!r} was used for another request, run {existing.run_id}",
        )
        return
    if existing is None:
        if e.run_key:
            row = RunKeyRow(e.run_key, e.run_id, e.request_fingerprint, fact.received_at)
            yield Put(RUN_KEYS, row)
        yield Emit(RunAdmitted(**{f: getattr(e, f) for f in e.__struct_fields__}))
    yield applied(fact)


def _by_set(fact: Fact, e: PartitionKeysChanged) -> str:
    return e.keys


def _by_run_key(fact: Fact, e: RunTriggered) -> str:
    return e.run_key or f"run:{e.run_id}"


STAGES = (
    DEPLOYMENTS_STAGE,
    Stage("dynamic_keys", (DYNAMIC_KEYS,), [On(PartitionKeysChanged, _by_set, _change_keys)]),
    Stage("run_keys", (RUN_KEYS,), [On(RunTriggered, _by_run_key, _admit_run)]),
    RUNS_STAGE,
)
