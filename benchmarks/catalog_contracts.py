"""What contracts cost at deploy. `catalog_tasks` measures their share of a task.

Projects of 1,000 and of 10,000 assets with 20 columns each are deployed, with a contract of all
columns for each asset. Then every asset gets one more column, and the check of all schemas and
contracts is timed, without the rest of the deployment.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from arco.orchestration.deploying import AssetIds, change_of
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.schema_deploy import BreakAcceptance, check_schemas
from benchmarks.catalog_schemas import with_column
from benchmarks.deploys import ARTIFACT, project
from benchmarks.workload import arguments, folder, open_workspace, progress, report
from servo.contract.manifest import Contract, Manifest


def measure(at: Path, quick: bool) -> dict[str, object]:
    rounds = 1 if quick else 5
    sizes = (200, 2_000) if quick else (1_000, 10_000)
    few, many = (_check_us(at / str(size), size, rounds) for size in sizes)
    return {
        "contract_check_per_asset_10k_over_1k": round(many / few, 3),
        "contract_check_us_per_asset_1k": round(few, 1),
        "contract_check_us_per_asset_10k": round(many, 1),
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


def main() -> None:
    args = arguments(__doc__).parse_args()
    with folder(args.dir) as at:
        report(measure(at, args.quick))


if __name__ == "__main__":
    main()
