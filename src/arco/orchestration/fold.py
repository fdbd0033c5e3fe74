"""Orchestration's fold, in five stages.

deployments   one key for all: which manifest of each project holds (`deployments.py`)
dynamic_keys  one key for each set of partition keys: what is in it, and which assets have it
limits        one key for all: what is set, and who was let in (`limit_fold.py`)
run_keys      one key for each run key: one run comes of it (`run_requests.py`)
runs          one key for each run: everything about it (`runs.py`)
"""

from __future__ import annotations

from collections.abc import Iterator

from arco.orchestration.deployments import STAGE as DEPLOYMENTS_STAGE
from arco.orchestration.derived import KeySetsDeclared, PartitionKeysFound, PartitionKeysRemoved
from arco.orchestration.events import PartitionKeysChanged
from arco.orchestration.limit_fold import STAGE as LIMITS_STAGE
from arco.orchestration.run_requests import STAGE as RUN_KEYS_STAGE
from arco.orchestration.runs import RUNS_STAGE
from arco.orchestration.tables import DYNAMIC_KEYS, KEY_SET_ASSETS, DynamicKeyRow, KeySetAssetRow
from arco.state.fold import Change, Delete, Emit, Fact, On, Put, Rows, Stage, by
from arco.state.system import applied


def _change_keys(rows: Rows, fact: Fact, e: PartitionKeysChanged) -> Iterator[Change]:
    for key in e.added:
        if rows.get(DYNAMIC_KEYS, e.keys, key) is None:
            yield Put(DYNAMIC_KEYS, DynamicKeyRow(e.keys, key, fact.received_at, fact.actor))
    removed = frozenset(e.removed)
    for key in e.removed:
        yield Delete(DYNAMIC_KEYS, (e.keys, key))
    for row in rows.scan(KEY_SET_ASSETS, e.keys) if removed else ():
        yield Emit(
            PartitionKeysRemoved(
                asset_id=row.asset_id, dimensions=tuple(row.dimensions), keys=removed
            )
        )
    yield applied(fact)


def _declare_sets(rows: Rows, fact: Fact, e: KeySetsDeclared) -> Iterator[Change]:
    if e.dimensions:
        yield Put(KEY_SET_ASSETS, KeySetAssetRow(e.keys, e.asset_id, list(e.dimensions)))
    else:
        yield Delete(KEY_SET_ASSETS, (e.keys, e.asset_id))


def _add_partition_keys(rows: Rows, fact: Fact, e: PartitionKeysFound) -> Iterator[Change]:
    for key in e.added:
        if rows.get(DYNAMIC_KEYS, e.keys, key) is None:
            yield Put(DYNAMIC_KEYS, DynamicKeyRow(e.keys, key, fact.received_at, fact.actor))


BEFORE_SENSORS = (DEPLOYMENTS_STAGE,)
"""What sensors hear of."""
AFTER_SENSORS = (
    Stage(
        "dynamic_keys",
        (DYNAMIC_KEYS, KEY_SET_ASSETS),
        [
            On(PartitionKeysChanged, by("keys"), _change_keys),
            On(PartitionKeysFound, by("keys"), _add_partition_keys),
            On(KeySetsDeclared, by("keys"), _declare_sets),
        ],
    ),
)
"""What hears of them, and what other automation hears of."""
AFTER_AUTOMATION = (LIMITS_STAGE, RUN_KEYS_STAGE, RUNS_STAGE)
STAGES = (*BEFORE_SENSORS, *AFTER_SENSORS, *AFTER_AUTOMATION)
