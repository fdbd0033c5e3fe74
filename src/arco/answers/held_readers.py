"""Which readers of an asset are out of date after a version of it was held or released."""

from __future__ import annotations

from arco.answers.asset_states import ASSET_STATES
from arco.execution.tables import PARTITIONS, QuarantineRow
from arco.lineage.tables import EXECUTIONS
from arco.orchestration.out_of_date import OutOfDate, out_of_date
from arco.orchestration.projects import DeploymentReader
from arco.orchestration.world import World
from arco.state.snapshot import Snapshot


def readers_out_of_date(
    snapshot: Snapshot, world: World, hold: QuarantineRow, *, given_back: bool = False
) -> OutOfDate:
    """Downstream assets, without outputs of the version that is current now.

    `given_back`: the version was good before it was held, so only outputs written in between can be
    out of date. Readers of a reader that is out of date are out of date too.
    """
    readers = out_of_date(world.manifest, hold.asset_key)
    downstream_keys = {*readers.same_partition, *readers.other_partitions}
    downstream = world.graph.downstream
    asset_id = DeploymentReader(snapshot).asset_id
    queue = [
        key
        for key in downstream.get(hold.asset_key, ())
        if key in downstream_keys
        and _is_changed(
            snapshot,
            asset_id(key),
            hold,
            same_partition=key in readers.same_partition,
            given_back=given_back,
        )
    ]
    changed: set[str] = set()
    while queue:
        key = queue.pop()
        if key in downstream_keys and key not in changed:
            changed.add(key)
            queue += downstream.get(key, ())
    return OutOfDate(
        tuple(key for key in readers.same_partition if key in changed),
        tuple(key for key in readers.other_partitions if key in changed),
    )


def _is_changed(
    snapshot: Snapshot, reader: str, hold: QuarantineRow, *, same_partition: bool, given_back: bool
) -> bool:
    if not same_partition:
        state = snapshot.get(ASSET_STATES, reader)
        made_at = None if state is None else state.last_materialization_at
        return not given_back or (made_at is not None and made_at > hold.held_at)
    row = snapshot.get(PARTITIONS, reader, hold.partition_key)
    if row is None:
        return not given_back
    current = snapshot.get(PARTITIONS, hold.asset_id, hold.partition_key)
    reads = snapshot.rows(EXECUTIONS, reader, row.materialization_id)
    if current is not None and any(
        current.materialization_id in read.source_materializations for read in reads
    ):
        return False
    return not given_back or row.updated_at > hold.held_at
