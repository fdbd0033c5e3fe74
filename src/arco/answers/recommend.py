"""Recommendations, from recorded facts.

Those about one asset follow from its state, which the fold keeps, and from look-ups by key. For all
assets the same tables are read completely, once each: the cost does not grow with partitions or
with history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from arco.answers.asset_health import GOOD_PASS_RATE
from arco.answers.asset_states import ASSET_STATES, AssetStateRow
from arco.answers.shapes import Cause, Priority, Recommendation
from arco.lineage.tables import DEPENDENTS
from arco.quality.tables import CHECK_TOTALS, CheckTotalsRow
from arco.state.snapshot import Snapshot

LEAST_EVALUATIONS: Final = 30
"""A check that has passed this often, and never failed, may be superfluous."""
SMALL_FILE_BYTES: Final = 8 << 20
LEAST_FILES: Final = 8
SKEWED: Final = 10
LEAST_SKEWED_BYTES: Final = 64 << 20
LEAST_OUTPUTS: Final = 5
RETRIED_SHARE: Final = 0.2
WIDE_WINDOW: Final = 30
RANK: Final = {Priority.HIGH: 0, Priority.MEDIUM: 1, Priority.LOW: 2}


class Recommender:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot

    def asset(
        self, asset: str, asset_id: str, causes: Sequence[Cause] = ()
    ) -> list[Recommendation]:
        """About one asset; `causes` is the chain of its problem."""
        state = self.snapshot.get(ASSET_STATES, asset_id)
        chosen = [*_upstream(asset, causes)]
        if state is not None:
            totals = self.snapshot.rows(CHECK_TOTALS, asset_id)
            is_read = bool(self.snapshot.rows(DEPENDENTS, asset_id))
            chosen += _of(asset, state, totals, is_read=is_read)
        return in_order(chosen)

    def all(self, assets: dict[str, str]) -> list[Recommendation]:
        """About many, by key the id."""
        states = {row.asset_id: row for row in self.snapshot.all(ASSET_STATES)}
        totals: dict[str, list[CheckTotalsRow]] = {}
        for row in self.snapshot.all(CHECK_TOTALS):
            totals.setdefault(row.asset_id, []).append(row)
        chosen: list[Recommendation] = []
        read = {row.source for row in self.snapshot.all(DEPENDENTS)}
        for asset, asset_id in assets.items():
            state = states.get(asset_id)
            if state is not None:
                rows = totals.get(asset_id, [])
                chosen += _of(asset, state, rows, is_read=asset_id in read)
        return in_order(chosen)


def _of(
    asset: str, state: AssetStateRow, totals: Sequence[CheckTotalsRow], *, is_read: bool
) -> Iterator[Recommendation]:
    yield from _failing_checks(asset, state)
    yield from _retries(asset, state)
    yield from _small_files(asset, state)
    yield from _skew(asset, state)
    yield from _wide_window(asset, state)
    yield from _idle_checks(asset, totals)
    if not is_read:
        yield from _unread(asset, state)


def in_order(recommendations: Sequence[Recommendation]) -> list[Recommendation]:
    return sorted(recommendations, key=lambda each: (RANK[each.priority], each.asset, each.kind))


def _upstream(asset: str, causes: Sequence[Cause]) -> Iterator[Recommendation]:
    if len(causes) > 1 and causes[-1].asset != asset:
        first = causes[-1]
        command = next((hint.command for hint in first.remedies if hint.command), None)
        yield Recommendation(
            priority=Priority.HIGH,
            kind="fix_upstream",
            asset=asset,
            action=f"Fix upstream asset: {first.asset}",
            reason=f"This asset waits for an upstream dependency: {first.text}",
            command=command,
            facts={"upstream": first.asset, "cause": first.kind},
        )


def _failing_checks(asset: str, state: AssetStateRow) -> Iterator[Recommendation]:
    total, passed = sum(state.recent_checks), sum(state.recent_passed)
    if total and passed / total < GOOD_PASS_RATE:
        yield Recommendation(
            priority=Priority.MEDIUM,
            kind="failing_checks",
            asset=asset,
            action="Review failing quality checks",
            reason=f"Quality pass rate is {passed / total:.1%} ({passed} of {total} results).",
            command=f"servo checks list {asset} --failing",
            facts={"passed": passed, "results": total},
        )


def _idle_checks(asset: str, totals: Sequence[CheckTotalsRow]) -> Iterator[Recommendation]:
    for row in totals:
        if row.failures or row.evaluations < LEAST_EVALUATIONS:
            continue
        yield Recommendation(
            priority=Priority.LOW,
            kind="check_never_fails",
            asset=asset,
            action=f"Tighten the check {row.check_id}, or keep it on purpose",
            reason=f"It has passed all {row.evaluations:,} times since {row.first_at:%Y-%m-%d}, "
            f"in {row.wall_ms / 1000:.1f} s.",
            command=f"servo checks show {asset} '{row.check_id}'",
            facts={
                "check": row.check_id,
                "evaluations": row.evaluations,
                "wall_ms": row.wall_ms,
            },
        )


def _retries(asset: str, state: AssetStateRow) -> Iterator[Recommendation]:
    attempts = state.recent_attempts
    retries = sum(number > 1 for number in attempts)
    if len(attempts) < LEAST_OUTPUTS or retries < RETRIED_SHARE * len(attempts):
        return
    code = f"; the last error was {state.last_failure_code}" if state.last_failure_code else ""
    yield Recommendation(
        priority=Priority.MEDIUM,
        kind="retries",
        asset=asset,
        action="Find out why attempts fail, before retries hide it",
        reason=f"{retries} of its last {len(attempts)} attempts were retries{code}.",
        command=f"servo runs show {state.last_run_id}" if state.last_run_id else None,
        facts={"retries": retries, "attempts": len(attempts)},
    )


def _small_files(asset: str, state: AssetStateRow) -> Iterator[Recommendation]:
    small_outputs = [
        (size, files)
        for size, files in zip(state.recent_bytes, state.recent_files, strict=True)
        if files >= LEAST_FILES and size / files < SMALL_FILE_BYTES
    ]
    if not small_outputs or len(small_outputs) * 2 < len(state.recent_files):
        return
    size, files = small_outputs[-1]
    yield Recommendation(
        priority=Priority.MEDIUM,
        kind="small_files",
        asset=asset,
        action='Write fewer files: io={"files": "1"}, or a larger target_file_size',
        reason=f"Its last outputs have {files} files of {size // files:,} bytes on average.",
        command=f"servo partitions versions {asset}",
        facts={"files": files, "bytes": size},
    )


def _skew(asset: str, state: AssetStateRow) -> Iterator[Recommendation]:
    sizes = [size for size in state.recent_bytes if size]
    if len(sizes) < LEAST_OUTPUTS or max(sizes) < LEAST_SKEWED_BYTES:
        return
    median_size = median(sizes)
    if max(sizes) < SKEWED * median_size:
        return
    yield Recommendation(
        priority=Priority.LOW,
        kind="skew",
        asset=asset,
        action="Split its large partitions by another dimension",
        reason=f"The largest of its last {len(sizes)} outputs has {max(sizes):,} bytes, "
        f"the usual one {int(median_size):,}.",
        command=f"servo partitions versions {asset}",
        facts={"largest": max(sizes), "median": int(median_size)},
    )


def _wide_window(asset: str, state: AssetStateRow) -> Iterator[Recommendation]:
    count, source = state.widest_input_versions, state.widest_input
    if count < WIDE_WINDOW or len(state.recent_rows) < LEAST_OUTPUTS:
        return
    yield Recommendation(
        priority=Priority.MEDIUM,
        kind="wide_window",
        asset=asset,
        action=f"Read less of {source}: aggregate it by period first, and read the aggregates",
        reason=f"Each output reads {count:,} versions of {source} in full.",
        command=f"servo lineage show {asset}",
        facts={"source": source, "versions": count},
    )


def _unread(asset: str, state: AssetStateRow) -> Iterator[Recommendation]:
    if len(state.recent_rows) < LEAST_OUTPUTS:
        return
    attempts, seconds = len(state.recent_wall_ms), sum(state.recent_wall_ms) / 1000
    yield Recommendation(
        priority=Priority.LOW,
        kind="unread",
        asset=asset,
        action="Remove it, or run it less often, if nobody outside uses it",
        reason=f"No asset reads it; its last {attempts} attempts took {seconds:.1f} s.",
        command=f"servo lineage show {asset} --down",
        facts={"attempts": attempts, "seconds": round(seconds, 3)},
    )
