"""Lineage and personal data: what a look downstream costs, and one upstream.

`impact_100k_over_1k`: the impact of one column that reaches 110 others, in a workspace of 100,000
assets over one of 1,000, by a reader that has looked at nothing yet. `pii_explain_100k_over_1k`:
why the last of them is personal. `search_personal_100k_ms`: a first search for `has:pii`, where
every asset has such a column, all but one in 111 by flow.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from arco.app import Workspace
from arco.catalog.events import AssetCreated, Column
from arco.lineage.events import EdgeAdded
from arco.log.envelope import Event
from arco.orchestration.personal_data import PersonalDataReader
from arco.search.reader import SearchReader
from arco.storage.local import LocalStore
from arco.storage.scoped import ScopedStore
from benchmarks.workload import arguments, filled_once, folder, progress, report, timed

FANOUT, GROUP = 10, 111
"""Of a group of assets: a root, ten that read it, and ten that read each of those."""
BATCH = 2_000


def opened(at: Path) -> Workspace:
    return Workspace(ScopedStore(LocalStore(at), "bench", "main"), "bench", "main")


def filled(at: Path, assets: int) -> Workspace:
    """A workspace of so many assets, in groups that know nothing of each other."""
    workspace = opened(at)
    workspace.commands.catalog.create_namespace("bench")
    batch: list[Event] = []
    for event in _events(workspace, assets):
        batch.append(event)
        if len(batch) == BATCH:
            _commit(workspace, batch)
            batch = []
    _commit(workspace, batch)
    workspace.upkeep.merger.merge(everything=True)
    return workspace


def _fill(at: Path, assets: int) -> int:
    return filled(at, assets).read.snapshot().generation


def _events(workspace: Workspace, assets: int) -> Iterator[Event]:
    group: list[str] = []
    for number in range(assets):
        is_root = not group
        columns = (Column(name="mail", type="string", pii="email" if is_root else ""),)
        created = workspace.ledger.event(
            AssetCreated(namespace="bench", name=f"a{number}", columns=columns)
        )
        yield created
        if group:
            source = group[(len(group) - 1) // FANOUT]
            yield workspace.ledger.event(
                EdgeAdded(
                    source_id=source,
                    target_id=created.id,
                    source_column="mail",
                    target_column="mail",
                    kind="identity",
                )
            )
        group.append(created.id)
        if len(group) == GROUP:
            group = []


def _commit(workspace: Workspace, batch: list[Event]) -> None:
    if batch:
        receipt = workspace.ledger.append(batch)
        workspace.committer.commit_batch(receipt.batch, 0)


def impact(workspace: Workspace, group: int) -> float:
    reader = workspace.read.lineage()
    seconds, reached = timed(reader.impact, f"bench.a{group * GROUP}", "mail")
    assert len(reached) == GROUP - 1, len(reached)
    return seconds


def explained(workspace: Workspace, group: int) -> float:
    reader = PersonalDataReader(workspace.read.snapshot())
    last = f"bench.a{group * GROUP + GROUP - 1}"
    seconds, explanation = timed(reader.explain, last, "mail")
    assert explanation.label.pii == {"email"} and len(explanation.paths["email"]) == 2
    return seconds


def measure(at: Path, quick: bool) -> dict[str, object]:
    small, large = (1_000, 5_000) if quick else (1_000, 100_000)
    sites = {}
    for count in (small, large):
        progress(f"a workspace of {count:,} assets")
        filled_once(at / str(count), partial(_fill, at / str(count), count))
        sites[count] = opened(at / str(count))
    figures: dict[str, object] = {}
    for name, look in (("impact", impact), ("pii_explain", explained)):
        times: dict[int, list[float]] = {small: [], large: []}
        for turn in range(21):
            for count, workspace in sites.items():
                group = turn * 7 % (count // GROUP)
                times[count].append(look(workspace, group))
        of = {count: statistics.median(all_of[1:]) for count, all_of in times.items()}
        figures[f"{name}_1k_ms"] = round(of[small] * 1e3, 2)
        figures[f"{name}_100k_ms"] = round(of[large] * 1e3, 2)
        figures[f"{name}_100k_over_1k"] = round(of[large] / of[small], 3)
    figures["search_personal_100k_ms"] = round(_search_ms(at / str(large), large), 1)
    return figures


def _search_ms(at: Path, assets: int) -> float:
    """A first search for personal data, which is in every asset."""
    snapshot = opened(at).read.snapshot()
    seconds, result = timed(SearchReader(snapshot).search, "has:pii")
    assert result.total == assets, result.total
    return seconds * 1e3


def main() -> None:
    args = arguments(__doc__).parse_args()
    with folder(args.dir) as at:
        report(measure(at, args.quick))


if __name__ == "__main__":
    main()
