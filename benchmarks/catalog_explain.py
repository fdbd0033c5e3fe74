"""Whether explaining one asset depends on how many assets there are.

Two workspaces have 1,000 and 100,000 assets, in chains of ten that read one another. Each asset
has one good version with checks, costs and lineage; in some chains the first asset has failed
since. Then the workspaces take turns: one asset is explained, the last of a chain, by a process
that has read nothing yet, and again by one that has.
"""

from __future__ import annotations

import gc
import random
import statistics
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.app import Workspace
from arco.app import domains as app
from arco.execution.events import CostIncurred, OutputAccepted, OutputMissed
from arco.lineage.events import LineageRecorded
from arco.log.envelope import Payload
from arco.orchestration.reader import OrchestrationReader
from arco.quality.events import ChecksEvaluated
from benchmarks import deploys
from benchmarks.workload import (
    arguments,
    drain,
    filled_once,
    folder,
    ms,
    open_workspace,
    progress,
    report,
    timed,
)
from servo.contract.task import (
    CheckResult,
    ColumnInfo,
    Cost,
    ErrorInfo,
    InputRef,
    Lineage,
    Materialization,
    MaterializationRef,
    Usage,
)
from servo.contract.ulid import system_ulids

SMALL, LARGE, ROUNDS = 1_000, 100_000, 15
CHAIN = 10
BATCH = 2_000
DAY, NEXT_DAY = "date=d:2025-01-01", "date=d:2025-01-02"
DERIVED: tuple[type[Payload], ...] = (
    OutputAccepted,
    OutputMissed,
    ChecksEvaluated,
    CostIncurred,
    LineageRecorded,
)
_ids = system_ulids()


def measure(at: Path, quick: bool) -> dict[str, object]:
    small, large, rounds = (300, 3_000, 3) if quick else (SMALL, LARGE, ROUNDS)
    keys = {count: _keys(at / str(count), count) for count in (small, large)}
    cold: dict[int, list[float]] = {small: [], large: []}
    warm: dict[int, list[float]] = {small: [], large: []}
    rng = random.Random(1)
    for _ in range(rounds):
        for count in (small, large):
            chosen = keys[count][rng.randrange(count // CHAIN) * CHAIN + CHAIN - 1]
            workspace = _open(at / str(count))
            gc.collect()
            cold[count].append(timed(_explain, workspace, chosen)[0])
            warm[count].append(timed(_explain, workspace, chosen)[0])
    return {
        "explain_100k_over_1k": _ratio(cold[large], cold[small]),
        "explain_ms_1k": ms(cold[small]),
        "explain_ms_100k": ms(cold[large]),
        "explain_again_100k_over_1k": _ratio(warm[large], warm[small]),
        "explain_again_ms_100k": ms(warm[large]),
    }


def _explain(workspace: Workspace, asset: str) -> None:
    assert workspace.answers().explain(asset).generation


def _ratio(one: Sequence[float], other: Sequence[float]) -> float:
    return round(statistics.median(one) / statistics.median(other), 3)


def _open(at: Path) -> Workspace:
    """A workspace whose log may hold what is otherwise derived."""
    at.mkdir(exist_ok=True)
    with mock.patch.object(app, "EVENTS", (*app.EVENTS, *DERIVED)):
        return open_workspace(at)


def _keys(at: Path, count: int) -> list[str]:
    return filled_once(at, lambda: _filled(at, count))


def _filled(at: Path, count: int) -> list[str]:
    workspace = _open(at)
    manifest = deploys.project(count, 2)
    seconds, _ = timed(workspace.commands.orchestration.deploy, manifest, deploys.ARTIFACT)
    progress(f"{count:,} assets deployed in {seconds:.0f} s")
    keys = [asset.key for asset in manifest.assets]
    rows = OrchestrationReader(workspace.read.snapshot()).deployed_assets()
    versions: dict[str, str] = {}
    for start in range(0, count, BATCH):
        part = range(start, min(count, start + BATCH))
        facts = [f for n in part for f in _output(n, keys, rows[keys[n]].asset_id, versions)]
        workspace.ledger.append(facts)
        drain(workspace)
        workspace.upkeep.merger.merge()
    workspace.upkeep.merger.merge(everything=True)
    progress(f"{count:,} assets have versions")
    return keys


def _output(
    number: int, keys: Sequence[str], asset_id: str, versions: dict[str, str]
) -> Iterator[Payload]:
    """What the report of one task derives."""
    asset, run, attempt, version, task = keys[number], _ids(), _ids(), _ids(), _ids()
    versions[asset] = version
    yield OutputAccepted(
        materialization=Materialization(
            materialization_id=version,
            asset=asset,
            asset_id=asset_id,
            partition=DAY,
            run_id=run,
            task_id=task,
            attempt_id=attempt,
            path=f"data/{asset}/{version}",
            files=("part-0.parquet",),
            rows=10,
            bytes=1_000,
            schema=(ColumnInfo(name="id", type="long"),),
            schema_hash="3f786850e387550fdab836ed7e6dc881",
            fingerprint="89e6c98d92887913cadf06b2adb97f26",
        )
    )
    yield CostIncurred(
        asset_id=asset_id,
        asset=asset,
        partition=DAY,
        run_id=run,
        task_id=task,
        attempt=1,
        attempt_id=attempt,
        outcome="succeeded",
        usage=Usage(wall_ms=100, cpu_ms=100),
        cost=Cost(currency="EUR", cpu=1),
    )
    yield ChecksEvaluated(
        asset_id=asset_id,
        asset=asset,
        partition=DAY,
        run_id=run,
        task_id=task,
        attempt_id=attempt,
        materialization_id=version,
        results=(CheckResult(name="row_count", passed=True, kind="row_count"),),
    )
    above = keys[number - 1] if number % CHAIN else ""
    ref = MaterializationRef(partition=DAY, materialization_id=versions.get(above, ""))
    read = (InputRef(asset=above, parameter="x", materializations=(ref,)),) if above else ()
    yield LineageRecorded(
        asset=asset,
        asset_id=asset_id,
        materialization_id=version,
        partition=DAY,
        run_id=run,
        task_id=task,
        lineage=Lineage(read=read),
    )
    if not above and number % 3 == 0:
        error = ErrorInfo(category="user_code", code="user_code.ValueError", message="no way")
        yield OutputMissed(asset_id=asset_id, partition=NEXT_DAY, run_id=_ids(), error=error)


def main() -> None:
    args = arguments(__doc__).parse_args()
    with folder(args.dir) as at:
        report(measure(at, args.quick))


if __name__ == "__main__":
    main()
