"""Orchestration's fold, in five stages.

deployments   one key for all: which manifest of each project holds (`deployments.py`)
dynamic_keys  one key for each set of partition keys
limits        one key for all: what is set, and who was let in (`limit_fold.py`)
run_keys      one key for each run key: one run comes of it (`run_requests.py`)
runs          one key for each run: everything about it (`runs.py`)
"""

from __future__ import annotations

from collections.abc import Iterator

from arco.orchestration.deployments import STAGE as DEPLOYMENTS_STAGE
from arco.orchestration.events import PartitionKeysChanged
from arco.orchestration.limit_fold import STAGE as LIMITS_STAGE
from arco.orchestration.run_requests import STAGE as RUN_KEYS_STAGE
from arco.orchestration.runs import RUNS_STAGE
from arco.orchestration.tables import DYNAMIC_KEYS, DynamicKeyRow
from arco.state.fold import Change, Delete, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied


def _change_keys(rows: Rows, fact: Fact, e: PartitionKeysChanged) -> Iterator[Change]:
    for key in e.added:
        if rows.get(DYNAMIC_KEYS, e.keys, key) is None:
            yield Put(DYNAMIC_KEYS, DynamicKeyRow(e.keys, key, fact.received_at, fact.actor))
    for key in e.removed:
        yield Delete(DYNAMIC_KEYS, (e.keys, key))
    yield applied(fact)


BEFORE_AUTOMATION = (
    DEPLOYMENTS_STAGE,
    Stage("dynamic_keys", (DYNAMIC_KEYS,), [On(PartitionKeysChanged, by("keys"), _change_keys)]),
)
"""What schedules hear of, and what hears of them."""
AFTER_AUTOMATION = (LIMITS_STAGE, RUN_KEYS_STAGE, RUNS_STAGE)
STAGES = (*BEFORE_AUTOMATION, *AFTER_AUTOMATION)
