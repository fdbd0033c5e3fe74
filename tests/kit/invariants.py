"""What must hold of every snapshot, at any instant, and of a workspace at rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from arco.app import Workspace
from arco.catalog.tables import ASSET_NAMES, ASSETS, COLUMNS, NAMESPACES
from arco.log.manifest import sha256
from arco.state.snapshot import Snapshot
from arco.state.system import COMMANDS, OUTCOMES, SEGMENTS
from arco.storage import paths
from tests.kit.model import check_against_model, read_log


def check_snapshot(s: Snapshot) -> None:
    """No commit is ever seen by half: what one event changes in several tables agrees."""
    names = s.all(ASSET_NAMES)
    assets = {row.asset_id: row for row in s.all(ASSETS)}
    where = f"generation {s.generation}"

    counted = Counter(row.namespace for row in names)
    told = {row.namespace: row.assets for row in s.all(NAMESPACES)}
    assert told == {name: counted[name] for name in told}, where
    assert set(counted) <= set(told), where

    by_name = {row.asset_id: (row.namespace, row.name) for row in names}
    assert by_name == {i: (row.namespace, row.name) for i, row in assets.items()}, where

    columns = s.all(COLUMNS)
    assert {row.asset_id for row in columns} <= set(assets), where
    each = Counter((row.asset_id, row.name) for row in columns)
    assert all(n == 1 for n in each.values()), where

    decided = {row.idempotency_key: row.event_id for row in s.all(OUTCOMES)}
    admitted = {row.idempotency_key: row.event_id for row in s.all(COMMANDS)}
    assert decided == admitted, where

    _check_dense(s)


def _check_dense(s: Snapshot) -> None:
    position = 0
    for row in sorted(s.all(SEGMENTS), key=lambda row: row.first_position):
        assert row.first_position == position + 1, f"generation {s.generation}"
        position = row.last_position
    assert position == s.position, f"generation {s.generation}"


def check_chain(w: Workspace) -> None:
    """Each kept generation names its parent's checksum, and moves nothing backwards."""
    head = w.manifests.head()
    parent = None
    for meta in list(w.store.list(paths.MANIFESTS)):
        generation = paths.root_generation(meta.path)
        if generation is None:
            continue
        found = w.manifests.read(generation)
        if parent is not None and parent.generation == generation - 1:
            assert found.manifest.parent_sha256 == parent.sha256, meta.path
            assert found.manifest.position >= parent.manifest.position, meta.path
            assert found.manifest.published_at >= parent.manifest.published_at, meta.path
            assert found.manifest.log_time >= parent.manifest.log_time, meta.path
        if found.manifest.segment is not None and parent is not None:
            assert found.manifest.segment.first == parent.manifest.position + 1, meta.path
            assert found.manifest.segment.last == found.manifest.position, meta.path
        parent = found
    assert parent is None or parent == head


def check_files(w: Workspace) -> None:
    """Everything that the head refers to is there, whole."""
    s = w.read.snapshot()
    for ref in s.head.manifest.domains.values():
        assert sha256(w.store.get(ref.path).data) == ref.sha256, ref.path
    for table in s.tables().values():
        for file in table.files():
            assert sha256(w.store.get(file.path).data) == file.sha256, file.path


def check_at_rest(w: Workspace, acknowledged: Iterable[str], attempted: Iterable[str] = ()) -> None:
    """Nothing acknowledged is lost or doubled; nothing else is there but what was attempted.

    `w` must be a fresh workspace on a store where nobody works any more.
    """
    while w.committer.commit().head.manifest.pending_cleanup:
        if not list(w.store.list(paths.INBOX)):
            break
    s = w.read.snapshot()
    acknowledged = list(acknowledged)
    counted = Counter(entry.id for entry in read_log(w, s))
    doubled = sorted(i for i, n in counted.items() if n > 1)
    lost = sorted(set(acknowledged) - set(counted))
    assert not lost, f"acknowledged and lost: {lost}"
    assert not doubled, f"in the log more than once: {doubled}"
    assert len(set(acknowledged)) == len(acknowledged)
    assert set(counted) <= set(acknowledged) | set(attempted), "events from nowhere"
    assert not list(w.store.list(paths.INBOX)), "the inbox is not empty"
    check_snapshot(s)
    check_chain(w)
    check_files(w)
    check_against_model(w, s)
    check_fsck(w)


def check_fsck(w: Workspace) -> None:
    report = w.upkeep.fsck(deep=True)
    assert report.clean, report.findings
