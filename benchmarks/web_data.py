"""Workspaces of the sizes that `benchmarks/web.py` opens pages of, each made once in a folder."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from pathlib import Path

from arco.app import Workspace
from arco.execution.states import PartitionStatus
from arco.execution.tables import PARTITION_STATUS, PartitionStatusRow
from arco.orchestration.plan import PlanRequest
from arco.orchestration.reader import OrchestrationReader
from arco.state import file_encoder
from arco.state.rewrite import Swap
from arco.storage import paths
from arco.storage.unique_objects import put_own
from benchmarks import catalog_search
from benchmarks.workload import open_workspace, progress
from servo.contract.manifest import (
    Asset,
    Code,
    Dimension,
    Input,
    Manifest,
    StaticDimension,
    TimeDimension,
)

PROJECT = 10_000
"""Assets of one deployment."""
ARTIFACT = b"a project"
LAYERS = 20
INPUTS = 3


def made(at: Path, what: str, fill: Callable[[Workspace], None]) -> Path:
    """Fills the workspace in a folder, unless that was done before."""
    done = at / "filled"
    if not done.exists():
        began = time.process_time()
        workspace = open_workspace(at)
        fill(workspace)
        workspace.upkeep.merger.merge(everything=True)
        done.write_text(what, "utf-8")
        progress(f"{what} in {time.process_time() - began:.0f} s of CPU")
    return at


def with_assets(at: Path, assets: int) -> Path:
    """Assets with descriptions, owners and four columns each."""

    def fill(workspace: Workspace) -> None:
        each = min(assets, PROJECT)
        catalog_search.COLUMNS = 4
        catalog_search.fill(workspace, assets // each, each)

    return made(at, f"{assets:,} assets", fill)


def with_graph(at: Path, assets: int) -> Path:
    """Assets in layers; each reads up to three of the two layers before its own."""

    def fill(workspace: Workspace) -> None:
        workspace.commands.orchestration.deploy(graph_manifest(assets), ARTIFACT)

    return made(at, f"a graph of {assets:,} assets", fill)


def graph_manifest(assets: int) -> Manifest:
    rng = random.Random(7)
    width = max(1, assets // LAYERS)
    keys = [f"area_{number // width:02}.{_name(rng)}_{number:05}" for number in range(assets)]

    def inputs(number: int) -> tuple[Input, ...]:
        first = (number // width - 2) * width
        last = number // width * width
        chosen = {rng.randrange(max(0, first), last) for _ in range(INPUTS)} if last else set()
        return tuple(
            Input(asset=keys[each], parameter=f"p{at}") for at, each in enumerate(sorted(chosen))
        )

    return Manifest(
        project="graph",
        artifact=hashlib.sha256(ARTIFACT).hexdigest(),
        assets=tuple(
            Asset(
                key=key,
                code=Code(module="shop", name=f"a{number}"),
                transform=f"{number:064x}",
                inputs=inputs(number),
            )
            for number, key in enumerate(keys)
        ),
    )


def _name(rng: random.Random) -> str:
    return f"{rng.choice(catalog_search.QUALITIES)}_{rng.choice(catalog_search.THINGS)}"


# -- partitions and runs ----------------------------------------------------------------------

PARTITIONED = "shop.visits"
FIRST_DAY = date(2015, 1, 1)
ROWS = 50_000
"""Of one file."""
STATUSES: tuple[tuple[PartitionStatus | None, int], ...] = (
    (PartitionStatus.GOOD, 93),
    (None, 3),
    (PartitionStatus.FAILED, 2),
    (PartitionStatus.WARNED, 1),
    (PartitionStatus.QUARANTINED, 1),
)
"""What became of so many of a hundred partitions; nothing of those without a row."""


def with_partitions(at: Path, days: int, shops: int) -> Path:
    """An asset with days times shops partitions, of which one in fifteen needs attention.

    The rows of their status are written as files of that table, in the product's own way. There are
    no rows of versions: the picture reads none of them.
    """

    def fill(workspace: Workspace) -> None:
        workspace.commands.orchestration.deploy(_partitioned(days, shops), ARTIFACT)
        asset_id = OrchestrationReader(workspace.read.snapshot()).asset_id(PARTITIONED)
        rows: list[PartitionStatusRow] = []
        for row in _status_rows(asset_id, days, shops):
            rows.append(row)
            if len(rows) == ROWS:
                _publish(workspace, rows)
                rows = []
        if rows:
            _publish(workspace, rows)

    return made(at, f"{days * shops:,} partitions", fill)


def with_run(at: Path, days: int, shops: int) -> Path:
    """A run with days times shops tasks, planned by the product; none of them has started."""

    def fill(workspace: Workspace) -> None:
        workspace.commands.orchestration.deploy(_partitioned(days, shops), ARTIFACT)
        request = PlanRequest(
            selection=(PARTITIONED,), partitions=("date=all", "shop=all"), max_tasks=days * shops
        )
        triggered = workspace.commands.orchestration.trigger(request)
        (at / "run").write_text(triggered.run_id, "utf-8")

    return made(at, f"a run of {days * shops:,} tasks", fill)


def run_of(at: Path) -> str:
    return (at / "run").read_text("utf-8")


def _partitioned(days: int, shops: int) -> Manifest:
    end = FIRST_DAY + timedelta(days=days)
    dimensions: tuple[Dimension, ...] = (
        TimeDimension(name="date", every="day", start=str(FIRST_DAY), end=str(end)),
        StaticDimension(name="shop", values=tuple(f"s{number:04}" for number in range(shops))),
    )
    code = Code(module="shop", name="visits")
    asset = Asset(key=PARTITIONED, code=code, partitions=dimensions, transform=f"{1:064x}")
    digest = hashlib.sha256(ARTIFACT).hexdigest()
    return Manifest(project="shop", artifact=digest, assets=(asset,))


def _status_rows(asset_id: str, days: int, shops: int) -> Iterable[PartitionStatusRow]:
    rng = random.Random(11)
    kinds = [status for status, _ in STATUSES]
    weights = [share for _, share in STATUSES]
    now = datetime(2026, 1, 1)
    for day in range(days):
        text = FIRST_DAY + timedelta(days=day)
        for shop, status in enumerate(rng.choices(kinds, weights, k=shops)):
            if status is None:
                continue
            version = f"01{day:012}{shop:012}"
            good = status in (PartitionStatus.GOOD, PartitionStatus.WARNED)
            yield PartitionStatusRow(
                asset_id=asset_id,
                partition_key=f"date=d:{text},shop=s:s{shop:04}",
                status=status,
                current=version if good else "",
                last="" if status == PartitionStatus.FAILED else version,
                last_run_id=version,
                last_at=now,
                good_at=now if good else None,
                warnings=0,
                error_code="" if good else "task.failed",
                message="",
            )


def _publish(workspace: Workspace, rows: list[PartitionStatusRow]) -> None:
    """Rows as a file of their table, in a generation of its own."""
    table = PARTITION_STATUS
    version = workspace.read.snapshot().position
    arrow = table.to_arrow({(row.asset_id, row.partition_key): (version, row) for row in rows})
    path = paths.state_file(table.domain, table.name, "l0", workspace.ids())
    raw, ref = file_encoder.encode(
        arrow, path, key=table.key, shard=table.shard, now=workspace.clock.now()
    )
    put_own(workspace.store, path, raw)
    workspace.upkeep.merger.publish([Swap(table, frozenset(), l0=(ref,))])
