"""Which versions expire, as a pure function.

Nothing here reads or deletes. See collect.py for what generations and runs need, and for the order
of the steps.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import msgspec

from arco.execution.states import VersionStatus
from arco.log.manifest import Thinned
from arco.state.gc import GenerationRetention as Generations
from arco.state.snapshot import Snapshot
from servo.contract.manifest import Retention

FOLDER = re.compile(r"(data/([^/]+)/([^/]+)/[^/]+)/([0-7][0-9A-HJKMNP-TV-Z]{25})/")
"""A version's: the partition's folder, namespace, name, and the version's id."""
_USELESS: Final = {VersionStatus.LATE: "late output", VersionStatus.REJECTED: "rejected"}
"""The reasons for versions that were never current."""


class KeepFor(msgspec.Struct, frozen=True):
    """How long unreferenced objects are kept."""

    generations: Generations = Generations()
    markers: timedelta = timedelta(days=7)
    """Of runs that have ended."""
    logs: timedelta = timedelta(days=30)
    plans: timedelta = timedelta(days=30)


class VersionInfo(NamedTuple):
    """What the decision needs of a version."""

    asset_id: str
    materialization_id: str
    partition_key: str
    status: VersionStatus
    version: int
    path: str
    bytes: int
    position: int = 0
    superseded_at: datetime | None = None
    run_id: str = ""


class RunNeeds(msgspec.Struct, frozen=True):
    """What the active runs of one generation need."""

    runs: frozenset[str] = frozenset()
    plans: frozenset[str] = frozenset()
    versions: frozenset[str] = frozenset()
    """What their plans read, and what their tasks have written."""
    folders: frozenset[str] = frozenset()
    """Of partitions that they still write."""
    since: datetime | None = None
    """What was current then or later may be read."""

    def also(self, other: RunNeeds) -> RunNeeds:
        times = [time for time in (self.since, other.since) if time is not None]
        return RunNeeds(
            self.runs | other.runs,
            self.plans | other.plans,
            self.versions | other.versions,
            self.folders | other.folders,
            min(times, default=None),
        )


class EndedRuns(msgspec.Struct, frozen=True):
    """When each recent run ended, and the plans of runs."""

    runs: Mapping[str, datetime]
    plans: Mapping[str, datetime]


class RunLookups(msgspec.Struct, frozen=True):
    """Lookups of runs and deployments, provided by orchestration."""

    needs: Callable[[Snapshot], RunNeeds]
    ended: Callable[[Snapshot, datetime], EndedRuns]
    """Runs that ended since a time."""
    retention: Callable[[Snapshot], Mapping[str, Retention]]
    """By the asset's id."""


class ExpiredVersion(msgspec.Struct, frozen=True):
    asset: str
    partition: str
    materialization_id: str
    version: int
    status: VersionStatus
    reason: str
    bytes: int
    path: str
    asset_id: str


def needed(
    versions: Iterable[VersionInfo], current: Iterable[str], since: datetime | None
) -> set[str]:
    """The versions that the generation of these rows needs; with `since`, all since then."""
    ids = set(current)
    for version in versions:
        ended = version.superseded_at
        if ended is None or (since is not None and ended >= since):
            ids.add(version.materialization_id)
    return ids


def current_in(versions: Iterable[VersionInfo], thinned: Sequence[Thinned]) -> set[str]:
    """The versions that may have been current in thinned generations, by their times.

    Each was written before the generation, and superseded after it.
    """
    positions = [generation.position for generation in thinned]
    current: set[str] = set()
    for version in versions:
        at = bisect_left(positions, version.position)
        ended = version.superseded_at
        if ended is not None and at < len(thinned) and thinned[at].log_time <= ended:
            current.add(version.materialization_id)
    return current


def expirable(
    versions: Sequence[VersionInfo],
    retention: Mapping[str, Retention],
    stays: Callable[[VersionInfo], bool],
    now: datetime,
) -> Iterator[ExpiredVersion]:
    """Versions that are not needed, and that their asset's retention does not keep.

    Without a retention, good versions are kept for ever. Late and rejected ones expire.
    """
    for version in versions:
        reason = _USELESS.get(version.status)
        if reason is not None and not stays(version):
            yield _expired(version, reason)
    good = sorted(
        (version for version in versions if version.status == VersionStatus.GOOD),
        key=lambda version: (version.asset_id, version.partition_key, -version.position),
    )
    for _, group in itertools.groupby(
        good, lambda version: (version.asset_id, version.partition_key)
    ):
        for place, version in enumerate(group):
            policy = retention.get(version.asset_id, Retention())
            if not stays(version) and not _retained(policy, place, version, now):
                yield _expired(version, f"its asset keeps {_policy_text(policy)}")


def _retained(policy: Retention, place: int, version: VersionInfo, now: datetime) -> bool:
    if not policy.versions and not policy.days:
        return True
    ended = version.superseded_at
    recent = ended is None or ended >= now - timedelta(days=policy.days)
    return place < policy.versions or bool(policy.days and recent)


def _policy_text(policy: Retention) -> str:
    parts = []
    if policy.versions:
        parts.append(f"{policy.versions} version{'' if policy.versions == 1 else 's'}")
    if policy.days:
        parts.append(f"what was current in {policy.days} day{'' if policy.days == 1 else 's'}")
    return ", and ".join(parts)


def _expired(version: VersionInfo, reason: str) -> ExpiredVersion:
    match = FOLDER.match(f"{version.path}/")
    return ExpiredVersion(
        asset=f"{match[2]}.{match[3]}" if match else version.asset_id,
        partition=version.partition_key,
        materialization_id=version.materialization_id,
        version=version.version,
        status=version.status,
        reason=reason,
        bytes=version.bytes,
        path=version.path,
        asset_id=version.asset_id,
    )
