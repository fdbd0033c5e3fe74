"""What contracts cost: their check at deploy, and their share of a task.

- Projects of 1,000 and of 10,000 assets with 20 columns each are deployed, with a contract of all
  columns for each asset. Then every asset gets one more column, and the check of all schemas and
  contracts is timed, without the rest of the deployment.
- One asset with many partitions, whose tasks return a row of 20 columns, is run again and again:
  with a contract of its columns, with one that has a key and a check too, and without, in turns.
  Figures are per task.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from arco.orchestration.deploying import AssetIds, change_of
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.schema_deploy import BreakAcceptance, check_schemas
from benchmarks.catalog_schemas import TASKS, with_column
from benchmarks.deploys import ARTIFACT, project
from benchmarks.flows import engine, run
from benchmarks.workload import arguments, folder, open_workspace, progress, report
from servo.contract.manifest import Contract, Manifest

COLUMNS = """
from servo import column, contract, in_range

contract(
    many,
    version="1.0.0",
    consumers=["finance@example.org"],
    columns=[column(f"column_{{n:02}}", "bigint", nullable=False) for n in range(20)],
"""
VALUES = '    key="column_00",\n    checks=[in_range("column_01", min=0)],\n'
VARIANTS = {"without": "", "columns": f"{COLUMNS})", "values": f"{COLUMNS}{VALUES})"}


def measure(at: Path, quick: bool) -> dict[str, object]:
    rounds = 1 if quick else 5
    sizes = (200, 2_000) if quick else (1_000, 10_000)
    few, many = (_check_us(at / str(size), size, rounds) for size in sizes)
    tasks = _task_ms(at, 20 if quick else 200, rounds)
    return {
        "contract_check_per_asset_10k_over_1k": round(many / few, 3),
        "contract_check_us_per_asset_1k": round(few, 1),
        "contract_check_us_per_asset_10k": round(many, 1),
        "task_without_contract_ms": round(tasks["without"], 3),
        "task_contract_columns_over_without": round(tasks["columns"] / tasks["without"], 3),
        "task_contract_values_over_without": round(tasks["values"] / tasks["without"], 3),
    }


def promised(manifest: Manifest) -> Manifest:
    """With a contract for each asset, of all its columns."""
    contracts = [
        Contract(
            name=asset.key,
            version="1.0.0",
            consumers=("finance@example.org",),
            columns=asset.columns,
            code=asset.code,
        )
        for asset in manifest.assets
    ]
    return msgspec.structs.replace(manifest, contracts=tuple(contracts))


def _check_us(at: Path, assets: int, rounds: int) -> float:
    at.mkdir()
    manifest = promised(project(assets))
    open_workspace(at).commands.orchestration.deploy(manifest, ARTIFACT)
    changed = msgspec.structs.replace(with_column(manifest), contracts=manifest.contracts)
    seconds = []
    for _ in range(rounds):
        reader = OrchestrationReader(open_workspace(at).read.snapshot())
        change = change_of(changed, AssetIds(reader, changed, lambda key: key), ())
        began = time.perf_counter()
        assert check_schemas(reader, changed, change, BreakAcceptance()) == ()
        seconds.append(time.perf_counter() - began)
    us = min(seconds) / assets * 1e6
    progress(f"{assets:,} assets: {us:.1f} µs each")
    return us


def _task_ms(at: Path, n: int, rounds: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for number in range(rounds):
        for name in list(VARIANTS) if number % 2 else reversed(VARIANTS):
            where = at / f"{number}-{name}"
            where.mkdir()
            text = (TASKS + VARIANTS[name]).format(n=n, more="")
            with engine(where, text) as made:
                run(made)  # the schema is registered, processes are there
                taken[name].append(run(made).per_task * 1e3)
            progress(f"round {number + 1}, {name}: {taken[name][-1]:.2f} ms a task")
    return {name: statistics.median(times) for name, times in taken.items()}


def main() -> None:
    args = arguments(__doc__).parse_args()
    with folder(args.dir) as at:
        report(measure(at, args.quick))


if __name__ == "__main__":
    main()
