"""The cost of an asset in a large deployment against one in a small deployment.

Projects of 1,000 and of 10,000 assets, with 20 documented columns each, are deployed into
fresh workspaces on a local disk: manifest, parts, commits, rows of the catalog. An asset of
the large project must cost no more. Then one asset of each is changed and deployed again,
which must cost little, and a plan for one asset is made. Figures are the best of some rounds.
"""

from __future__ import annotations

import hashlib
import resource
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.orchestration.plan import PlanRequest
from benchmarks.workload import arguments, folder, open_workspace, progress, report, timed
from servo.contract.manifest import Asset, Code, ColumnDef, Input, Manifest, TimeDimension

SMALL, LARGE = 1_000, 10_000
COLUMNS = 20
NAMESPACE_ASSETS = 50
ARTIFACT = b"a project"


def documented(asset: int, columns: int) -> tuple[ColumnDef, ...]:
    return tuple(
        ColumnDef(
            name=f"column_{number:02}",
            type="decimal(18,2)" if number % 3 else "string",
            description=f"Measure {number} of source {asset}, as the ledger of the day has it.",
            nullable=bool(number % 2),
        )
        for number in range(columns)
    )


def project(assets: int, columns: int = COLUMNS, *, changed: int = -1) -> Manifest:
    """Assets in namespaces of fifty, each of which reads the one before it."""
    keys = [f"area_{at // NAMESPACE_ASSETS:03}.asset_{at:05}" for at in range(assets)]
    daily = TimeDimension(name="date", every="day", start="2025-01-01")
    return Manifest(
        artifact=hashlib.sha256(ARTIFACT).hexdigest(),
        assets=tuple(
            Asset(
                key=key,
                code=Code(module="shop", name=f"asset_{at}", file="shop.py", line=at + 1),
                description=f"Asset {at} of the benchmark."
                + (" Changed." if at == changed else ""),
                owners=("data-team",),
                tags={"tier": "gold"},
                partitions=(daily,),
                inputs=(Input(asset=keys[at - 1], parameter="x"),) if at % 10 else (),
                columns=documented(at, columns),
                transform=f"{at:064x}",
            )
            for at, key in enumerate(keys)
        ),
    )


class Case:
    """A project of one size, deployed into a fresh workspace each time."""

    def __init__(self, assets: int, columns: int = COLUMNS) -> None:
        self.assets = assets
        self._columns = columns
        self._manifest = project(assets, columns)
        self._first: list[float] = []
        self._again: list[float] = []
        self._plan: list[float] = []

    def measure(self, at: Path) -> None:
        seconds, done = timed(
            open_workspace(at).commands.orchestration.deploy, self._manifest, ARTIFACT
        )
        assert len(done.added) == self.assets
        self._first.append(seconds)
        changed = project(self.assets, self._columns, changed=self.assets // 2)
        self._again.append(
            timed(open_workspace(at).commands.orchestration.deploy, changed, ARTIFACT)[0]
        )
        request = PlanRequest(selection=(changed.assets[0].key,), partitions=("date=2025-01-01",))
        self._plan.append(timed(open_workspace(at).commands.orchestration.plan, request)[0])

    @property
    def us_per_asset(self) -> float:
        return round(min(self._first) / self.assets * 1e6, 1)

    @property
    def again_ms(self) -> float:
        return round(min(self._again) * 1e3, 1)

    @property
    def plan_ms(self) -> float:
        return round(min(self._plan) * 1e3, 1)


def measure(
    parent: Path | None, rounds: int, *, small: int = SMALL, large: int = LARGE
) -> dict[str, object]:
    cases = (Case(small), Case(large))
    for number in range(rounds):
        for case in cases:
            with folder(parent) as at:
                case.measure(at)
        shown = ", ".join(f"{case.assets:,} assets: {case.us_per_asset} µs each" for case in cases)
        progress(f"round {number + 1}: {shown}")
    few, many = cases
    return {
        "deploy_per_asset_10k_over_1k": round(many.us_per_asset / few.us_per_asset, 3),
        "deploy_us_per_asset_1k": few.us_per_asset,
        "deploy_us_per_asset_10k": many.us_per_asset,
        "deploy_one_changed_ms_1k": few.again_ms,
        "deploy_one_changed_ms_10k": many.again_ms,
        "plan_one_asset_ms_1k": few.plan_ms,
        "plan_one_asset_ms_10k": many.plan_ms,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def main() -> None:
    args = arguments(__doc__).parse_args()
    if args.quick:
        report(measure(args.dir, 1, small=200, large=2_000))
    else:
        report(measure(args.dir, 3))


if __name__ == "__main__":
    main()
