"""Which versions may go: decided, not done.

Nothing here reads or deletes. What generations and runs need is given; see collect.py for
where it comes from, and for the order in which things happen.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from arco.state.gc import Retention as Generations
from arco.state.snapshot import Snapshot
from servo.contract.manifest import Retention

FOLDER = re.compile(r"(data/([^/]+)/([^/]+)/[^/]+)/([0-7][0-9A-HJKMNP-TV-Z]{25})/")
"""A version's: the partition's folder, namespace, name, and the version's id."""


class Kept(msgspec.Struct, frozen=True):
    """How long things stay that nothing refers to any more."""

    generations: Generations = Generations()
    markers: timedelta = timedelta(days=7)
    """Of runs that have ended."""
    logs: timedelta = timedelta(days=30)
    plans: timedelta = timedelta(days=30)


class Made(NamedTuple):
    """What deciding needs to know of a version."""

    asset_id: str
    materialization_id: str
    partition_key: str
    status: str
    version: int
    path: str
    bytes: int
    position: int = 0
    superseded_at: datetime | None = None


class Needs(msgspec.Struct, frozen=True):
    """What the active runs of one generation need."""

    runs: frozenset[str] = frozenset()
    plans: frozenset[str] = frozenset()
    versions: frozenset[str] = frozenset()
    """What their plans read, and what their tasks have made."""
    folders: frozenset[str] = frozenset()
    """Of partitions that they still work on."""
    since: datetime | None = None
    """What was current then or later may be read."""

    def also(self, other: Needs) -> Needs:
        times = [time for time in (self.since, other.since) if time is not None]
        return Needs(
            self.runs | other.runs,
            self.plans | other.plans,
            self.versions | other.versions,
            self.folders | other.folders,
            min(times, default=None),
        )


class Ended(msgspec.Struct, frozen=True):
    """When each run ended that has, and which plan was whose."""

    runs: Mapping[str, datetime]
    plans: Mapping[str, datetime]


class Runs(msgspec.Struct, frozen=True):
    """What is asked of those who know runs and deployments."""

    needs: Callable[[Snapshot], Needs]
    ended: Callable[[Snapshot], Ended]
    retention: Callable[[Snapshot], Mapping[str, Retention]]
    """By the asset's id."""


class GivenUp(msgspec.Struct, frozen=True):
    asset: str
    partition: str
    materialization_id: str
    version: int
    status: str
    reason: str
    bytes: int
    path: str
    asset_id: str


def needed(versions: Iterable[Made], current: Iterable[str], since: datetime | None) -> set[str]:
    """What the generation of these rows needs; with `since`, those before it too, until then."""
    found = set(current)
    for made in versions:
        ended = made.superseded_at
        if ended is None or (since is not None and ended >= since):
            found.add(made.materialization_id)
    return found


def give_up(
    versions: Sequence[Made],
    retention: Mapping[str, Retention],
    stays: Callable[[Made], bool],
    now: datetime,
) -> Iterator[GivenUp]:
    """Versions that nobody needs, and that their asset's retention does not keep.

    Good ones stay for ever where the asset says nothing. Late and rejected ones go.
    """
    for made in versions:
        if made.status in ("LATE", "REJECTED") and not stays(made):
            yield _given_up(made, "it came too late" if made.status == "LATE" else "rejected")
    good = sorted(
        (made for made in versions if made.status == "GOOD"),
        key=lambda made: (made.asset_id, made.partition_key, -made.position),
    )
    for _, those in itertools.groupby(good, lambda made: (made.asset_id, made.partition_key)):
        for place, made in enumerate(those):
            policy = retention.get(made.asset_id, Retention())
            if not stays(made) and not _retained(policy, place, made, now):
                yield _given_up(made, f"its asset keeps {_policy_text(policy)}")


def _retained(policy: Retention, place: int, made: Made, now: datetime) -> bool:
    if not policy.versions and not policy.days:
        return True
    ended = made.superseded_at
    recent = ended is None or ended >= now - timedelta(days=policy.days)
    return place < policy.versions or bool(policy.days and recent)


def _policy_text(policy: Retention) -> str:
    parts = []
    if policy.versions:
        parts.append(f"{policy.versions} version{'' if policy.versions == 1 else 's'}")
    if policy.days:
        parts.append(f"what was current in {policy.days} day{'' if policy.days == 1 else 's'}")
    return ", and ".join(parts)


def _given_up(made: Made, reason: str) -> GivenUp:
    found = FOLDER.match(f"{made.path}/")
    return GivenUp(
        asset=f"{found[2]}.{found[3]}" if found else made.asset_id,
        partition=made.partition_key,
        materialization_id=made.materialization_id,
        version=made.version,
        status=made.status,
        reason=reason,
        bytes=made.bytes,
        path=made.path,
        asset_id=made.asset_id,
    )
