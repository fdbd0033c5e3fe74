"""What schemas cost: their check at deploy, and their share of a task.

- Projects of 1,000 and of 10,000 assets with 20 columns each are deployed. Then every asset gets
  one more column, and the check of all of them is timed, without the rest of the deployment.
  An asset of the large project must cost no more.
- One asset with many partitions, whose tasks return a row, is run again and again: with the
  registry and the check of its schema, and without either, in turns. Figures are per task.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from arco.app import Workspace, domains
from arco.execution.events import OutputAccepted, OutputRecorded
from arco.orchestration import derived
from arco.orchestration.deploying import AssetIds, change_of
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.schema_deploy import BreakAcceptance, check_schemas
from arco.orchestration.tables import DeployedAssetRow
from benchmarks.deploys import ARTIFACT, project
from benchmarks.flows import engine, run
from benchmarks.workload import arguments, folder, open_workspace, progress, report
from servo.contract.manifest import Asset, ColumnDef, Manifest
from servo.contract.task import ColumnInfo, Materialization

BATCH = 250

TASKS = """
import pyarrow as pa

from servo import asset, static

ROW = pa.table({{f"column_{{n:02}}": [n] for n in range(20)}})


@asset(namespace="flow", partitions=static("key", [f"{{n:04}}" for n in range({n})]){more})
def many():
    return ROW
"""


def measure(at: Path, quick: bool) -> dict[str, object]:
    rounds = 1 if quick else 5
    sizes = (200, 2_000) if quick else (1_000, 10_000)
    few, many = (_check_us(at / str(size), size, rounds) for size in sizes)
    with_registry, without = _task_ms(at, 20 if quick else 200, 1 if quick else 5)
    return {
        "deploy_check_per_asset_10k_over_1k": round(many / few, 3),
        "deploy_check_us_per_asset_1k": round(few, 1),
        "deploy_check_us_per_asset_10k": round(many, 1),
        "task_registry_over_without": round(with_registry / without, 3),
        "task_registry_ms": round(with_registry, 3),
        "task_without_registry_ms": round(without, 3),
    }


def _check_us(at: Path, assets: int, rounds: int) -> float:
    at.mkdir()
    with mock.patch.object(domains, "EVENTS", (*domains.EVENTS, OutputAccepted)):
        workspace = open_workspace(at)
    workspace.commands.orchestration.deploy(project(assets), ARTIFACT)
    _put_outputs(workspace, project(assets))
    changed = with_column(project(assets))
    seconds = []
    for _ in range(rounds):
        reader = OrchestrationReader(open_workspace(at).read.snapshot())
        change = change_of(changed, AssetIds(reader, changed, lambda key: key), ())
        assert len(change.assets) == assets
        began = time.perf_counter()
        assert check_schemas(reader, changed, change, BreakAcceptance()) == ()
        seconds.append(time.perf_counter() - began)
    us = min(seconds) / assets * 1e6
    progress(f"{assets:,} assets: {us:.1f} µs each")
    return us


def _put_outputs(workspace: Workspace, manifest: Manifest) -> None:
    """One for each asset, with the columns that it declares."""
    deployed = workspace.read.orchestration().deployed_assets()
    for first in range(0, len(manifest.assets), BATCH):
        some = manifest.assets[first : first + BATCH]
        outputs = [OutputAccepted(materialization=_output(a, deployed[a.key])) for a in some]
        workspace.ledger.append([workspace.ledger.event(each) for each in outputs])
        workspace.committer.commit()


def _output(asset: Asset, row: DeployedAssetRow) -> Materialization:
    return Materialization(
        materialization_id=f"M-{row.asset_id}",
        asset=asset.key,
        asset_id=row.asset_id,
        partition="",
        run_id="R",
        task_id="t",
        attempt_id="a",
        path="x",
        schema=tuple(ColumnInfo(name=c.name, type=c.type, nulls=0) for c in asset.columns),
    )


def with_column(manifest: Manifest) -> Manifest:
    def more(asset: Asset) -> Asset:
        columns = (*asset.columns, ColumnDef(name="more", type="string"))
        return msgspec.structs.replace(asset, columns=columns)

    return msgspec.structs.replace(manifest, assets=tuple(map(more, manifest.assets)))


def _task_ms(at: Path, n: int, rounds: int) -> tuple[float, float]:
    """Milliseconds of a task, with and without the registry."""
    taken: dict[bool, list[float]] = {True: [], False: []}
    observe = derived.DECISIONS.on[OutputRecorded]
    for number in range(rounds):
        for registered in (True, False) if number % 2 else (False, True):
            more = "" if registered else ', compatibility="none"'
            where = at / f"{number}-{registered}"
            where.mkdir()
            if not registered:
                del derived.DECISIONS.on[OutputRecorded]
            try:
                with engine(where, TASKS.format(n=n, more=more)) as made:
                    run(made)  # the schema is registered, processes are there
                    taken[registered].append(run(made).per_task * 1e3)
            finally:
                derived.DECISIONS.on[OutputRecorded] = observe
            name = "with" if registered else "without"
            progress(f"round {number + 1}, {name}: {taken[registered][-1]:.2f} ms a task")
    return statistics.median(taken[True]), statistics.median(taken[False])


def main() -> None:
    args = arguments(__doc__).parse_args()
    with folder(args.dir) as at:
        report(measure(at, args.quick))


if __name__ == "__main__":
    main()
