"""What the check of schemas costs at deploy.

Projects of 1,000 and of 10,000 assets with 20 columns each are deployed. Then every asset gets
one more column, and the check of all of them is timed, without the rest of the deployment, by
CPU time. An asset of the large project must cost no more.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from arco.app import Workspace, domains
from arco.execution.events import OutputAccepted
from arco.orchestration.deploying import AssetIds, change_of
from arco.orchestration.reader import OrchestrationReader
from arco.orchestration.schema_deploy import BreakAcceptance, check_schemas
from arco.orchestration.tables import DeployedAssetRow
from benchmarks.deploys import ARTIFACT, project
from benchmarks.workload import arguments, folder, open_workspace, progress, report
from servo.contract.manifest import Asset, ColumnDef, Manifest
from servo.contract.task import ColumnInfo, Materialization

BATCH = 250


def measure(at: Path, quick: bool) -> dict[str, object]:
    rounds = 1 if quick else 5
    sizes = (200, 2_000) if quick else (1_000, 10_000)
    few, many = (_check_us(at / str(size), size, rounds) for size in sizes)
    return {
        "deploy_check_per_asset_10k_over_1k": round(many / few, 3),
        "deploy_check_us_per_asset_1k": round(few, 1),
        "deploy_check_us_per_asset_10k": round(many, 1),
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
        began = time.process_time()
        assert check_schemas(reader, changed, change, BreakAcceptance()) == ()
        seconds.append(time.process_time() - began)
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


def main() -> None:
    args = arguments(__doc__).parse_args()
    with folder(args.dir) as at:
        report(measure(at, args.quick))


if __name__ == "__main__":
    main()
