"""Merges: fewer, larger files for the same rows.

A merge runs beside commits. It reads files of a generation, writes new ones, and
publishes a commit that swaps exactly the files it read. Commits in between only
add files, so they do not disturb it. If one of its files is gone from the head,
another merge was faster, and this one's work is dropped.

Two kinds, so that the cost follows the activity and not the size of a table:

- *into a run*: small L0 files become one larger L0 file. Files join only a run of
  about their own size, so each row is rewritten a logarithmic number of times.
- *into the base*: when the L0 rows amount to a good part of the base, or have
  waited too long, the base files of the touched buckets are rewritten. Tombstones
  end here, and rows that have left (see `History`) go to files of their day.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from arco.clock import Clock
from arco.log.head import Head, Manifests
from arco.log.manifest import FileRef, L0Limits, TableManifest
from arco.log.publish import Proposal, Publisher
from arco.state.parquet import Files
from arco.state.project import with_table
from arco.state.rewrite import Rewriter, Swap
from arco.state.table import Table
from arco.storage.lease import Leases

log = logging.getLogger(__name__)

LEASE = "merge"
LEASE_TTL = timedelta(minutes=1)


class Plan(NamedTuple):
    l0: tuple[FileRef, ...]
    into_base: bool


def plan(manifest: TableManifest, limits: L0Limits, now: datetime) -> Plan | None:
    """What to merge, if anything is due."""
    l0 = manifest.l0
    if not l0:
        return None
    aged = (now - min(ref.created_at for ref in l0)).total_seconds() > limits.age_s
    large = sum(ref.bytes for ref in l0) > limits.bytes
    if not (aged or large or len(l0) > limits.files):
        return None
    base_rows = sum(ref.rows for ref in manifest.base)
    if aged or large or 4 * sum(ref.rows for ref in l0) >= base_rows:
        return Plan(l0, True)
    return Plan(_of_like_size(l0), False)


def _of_like_size(l0: tuple[FileRef, ...]) -> tuple[FileRef, ...]:
    """The smaller files, and any larger one that does not exceed those before it together."""
    chosen: list[FileRef] = []
    total = 0
    for ref in sorted(l0, key=lambda ref: ref.rows):
        if len(chosen) > len(l0) // 2 and ref.rows > total:
            break
        chosen.append(ref)
        total += ref.rows
    return tuple(chosen)


class Merger:
    def __init__(
        self,
        publisher: Publisher,
        tables: Sequence[Table[Any]],
        files: Files,
        clock: Clock,
        ids: Callable[[], str],
        leases: Leases,
    ) -> None:
        self._publisher = publisher
        self._leases = leases
        self._manifests: Manifests = publisher.manifests
        self._tables = tuple(tables)
        self._clock = clock
        self._rewriter = Rewriter(files, clock, ids)

    def merge(self, *, everything: bool = False) -> Head | None:
        """Merge what is due (or everything, into the base); None if nothing was published.

        Of several mergers one does the work: the others find the lease taken.
        """
        began = self._publisher.begin()
        head = self._manifests.head()
        todo = [
            (table, due) for table in self._tables if (due := self._due(table, head, everything))
        ]
        if not todo:
            return None
        with self._leases.hold(LEASE, LEASE_TTL) as hold:
            if hold is None:
                log.info("somebody else is merging")
                return None
            swaps = [self._rewrite(table, head, due) for table, due in todo]
            # Whole tables passed through memory: what that leaves free goes back.
            pa.default_memory_pool().release_unused()
            return self._publisher.publish(lambda head: self._propose(head, swaps), began)

    def _due(self, table: Table[Any], head: Head, everything: bool) -> Plan | None:
        ref = head.manifest.domains.get(table.domain)
        domain = None if ref is None else self._manifests.domain(ref)
        manifest = None if domain is None else domain.tables.get(table.name)
        if domain is None or manifest is None:
            return None
        if everything:
            return Plan(manifest.l0, True) if manifest.l0 else None
        return plan(manifest, domain.limits, self._clock.now())

    def _rewrite(self, table: Table[Any], head: Head, due: Plan) -> Swap:
        if not due.into_base:
            return self._rewriter.into_run(table, due.l0)
        manifest = self._manifests.domains(head)[table.domain].tables[table.name]
        return self._rewriter.into_base(table, manifest, due.l0, head.manifest.log_time)

    def _propose(self, head: Head, swaps: Sequence[Swap]) -> Proposal | None:
        domains = dict(self._manifests.domains(head))
        changed = set()
        for swap in swaps:
            domain = domains.get(swap.table.domain)
            manifest = None if domain is None else domain.tables.get(swap.table.name)
            merged = None if manifest is None else swap.apply(manifest)
            if domain is None or merged is None:
                log.info("another merge of %s was faster", swap.table)
                continue
            domains[swap.table.domain] = with_table(domain, swap.table.name, merged)
            changed.add(swap.table.domain)
        if not changed:
            return None
        return Proposal(
            kind="merge",
            domains={name: domains[name] for name in sorted(changed)},
            position=head.manifest.position,
            log_time=head.manifest.log_time,
            pending=head.manifest.pending_cleanup,
        )
