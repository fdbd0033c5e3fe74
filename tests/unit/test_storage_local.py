from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from arco.errors import AlreadyExists, Invalid, NotFound, Unavailable
from arco.state.gc import GenerationRetention
from arco.storage import localfiles, paths
from arco.storage.local import LocalStore
from arco.storage.port import Mode
from arco.storage.scoped import ScopedStore
from tests.kit.clocks import SimClock
from tests.kit.stores import DatedStore
from tests.kit.workspace import make_workspace

WRITER = """
import sys
from arco.storage.local import LocalStore
from arco.storage.port import Mode
store = LocalStore(sys.argv[1])
store.nameless = sys.argv[2] == "nameless"
print("go", flush=True)
for number in range(1_000_000):
    store.put(f"n/{number:020d}", bytes([number % 250]) * 50_000)
    store.put("o", bytes([number % 250]) * 50_000, Mode.OVERWRITE)
"""


def names(store: LocalStore) -> list[str]:
    return [meta.path for meta in store.list("")]


@pytest.fixture(params=["nameless", "named"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> LocalStore:
    made = LocalStore(tmp_path / "store")
    made.nameless = request.param == "nameless"
    return made


def files(store: LocalStore) -> list[str]:
    root = Path(store.url.removeprefix("file://"))
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())


def test_writes_leave_no_temporary_files(store: LocalStore) -> None:
    store.put("a/b", b"1")
    store.put("a/b", b"2", Mode.OVERWRITE)
    with pytest.raises(AlreadyExists):
        store.put("a/b", b"3")
    assert files(store) == ["a/b"]


def test_full_disk_is_unavailable_and_leaves_nothing(store: LocalStore) -> None:
    store.put("small", b"x")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        for mode in Mode:
            with pytest.raises(Unavailable, match="large"):
                store.put("large", b"x" * 20_000, mode)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files(store) == ["small"]


def test_object_below_an_object_is_invalid(store: LocalStore) -> None:
    store.put("a", b"")
    for mode in Mode:
        with pytest.raises(Invalid):
            store.put("a/b", b"", mode)
    store.put("a", b"2", Mode.OVERWRITE)
    store.put("c/d", b"")
    with pytest.raises(Invalid):
        store.put("c", b"", Mode.OVERWRITE)


def test_put_recovers_when_its_directories_are_removed(store: LocalStore) -> None:
    root = Path(store.url.removeprefix("file://"))
    store.put("a/b/c", b"1")
    store.delete("a/b/c")
    (root / "a/b").rmdir()
    (root / "a").rmdir()
    store.put("a/b/c", b"2")
    assert store.get("a/b/c").data == b"2"


def test_temporary_files_are_hidden_and_swept_when_old(store: LocalStore, tmp_path: Path) -> None:
    store.put("a/b", b"1")
    root = tmp_path / "store"
    for name in (".tmp-old", "a/.tmp-old", "a/.tmp-new"):
        (root / name).write_bytes(b"half")
    (root / "empty/deep").mkdir(parents=True)
    hour_ago = time.time() - 3600
    for name in (".tmp-old", "a/.tmp-old", "a/b", "empty/deep"):
        os.utime(root / name, (hour_ago, hour_ago))
    assert names(store) == ["a/b"]
    assert store.sweep(timedelta(minutes=30)) == 2
    assert files(store) == ["a/.tmp-new", "a/b"]
    assert not (root / "empty/deep").exists()
    assert store.get("a/b").data == b"1"


def test_file_names_that_no_key_can_have_are_not_listed(store: LocalStore) -> None:
    root = Path(store.url.removeprefix("file://"))
    Path(os.fsdecode(os.fsencode(root) + b"/not-utf8-\xff")).write_bytes(b"")
    store.put("a", b"")
    assert names(store) == ["a"]


def test_listing_reads_only_the_directories_of_its_prefix(store: LocalStore) -> None:
    for path in ("a/1", "b/1", "ledger/inbox/1", "ledger/segments/1"):
        store.put(path, b"")
    script = (
        "import os, sys\n"
        "from arco.storage.local import LocalStore\n"
        "store = LocalStore(sys.argv[1])\n"
        "seen = []\n"
        "sys.addaudithook(lambda event, args: event == 'os.scandir' and seen.append(args[0]))\n"
        "found = [m.path for m in store.list('ledger/in')]\n"
        "print(found, [os.path.relpath(s, sys.argv[1]) for s in seen])\n"
    )
    root = store.url.removeprefix("file://")
    done = subprocess.run([sys.executable, "-c", script, root], capture_output=True, text=True)
    assert done.stdout == "['ledger/inbox/1'] ['ledger', 'ledger/inbox']\n", done.stderr


@pytest.mark.parametrize("kind", ["nameless", "named"])
def test_killed_writer_leaves_only_whole_objects(tmp_path: Path, kind: str) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path), kind]
    for delay_s in (0.03, 0.07, 0.11):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(delay_s)
            writer.send_signal(signal.SIGKILL)
        store = LocalStore(tmp_path)
        for meta in list(store.list("")):
            data = store.get(meta.path).data
            assert data == data[:1] * 50_000
            store.delete(meta.path)
    assert all(name.rpartition("/")[2].startswith(".tmp-") for name in files(store))
    store.sweep(timedelta(seconds=-1))
    assert files(store) == []


def test_head_of_a_directory_is_not_found(store: LocalStore) -> None:
    store.put("a/b", b"")
    with pytest.raises(NotFound):
        store.head("a")


# Symbolic links


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the store, with an old file and an old temporary one."""
    folder = tmp_path / "outside"
    (folder / "deep").mkdir(parents=True)
    for name in ("precious", "deep/precious", ".tmp-theirs", "deep/.tmp-theirs"):
        (folder / name).write_bytes(b"precious")
        os.utime(folder / name, (0, 0))
    return folder


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def linked(store: LocalStore, outside: Path) -> LocalStore:
    """A store with links to a folder and to a file, beside an object and below one."""
    root = Path(store.url.removeprefix("file://"))
    store.put("a/b/c", b"ours")
    (root / "folder").symlink_to(outside)
    (root / "a/folder").symlink_to(outside)
    (root / "a/file").symlink_to(outside / "precious")
    (root / "a/dangling").symlink_to(outside / "new")
    (root / "a/.tmp-link").symlink_to(outside / "precious")
    (root / "a/inside").symlink_to(root / "a/b")
    (root / "a/loop").symlink_to(root / "a")
    return store


THROUGH = [
    "folder/precious", "folder/deep/precious", "a/folder/precious", "a/folder/deep/precious",
    "a/file", "a/dangling", "a/inside/c", "a/loop/b/c",
]  # fmt: skip


@pytest.mark.parametrize("path", THROUGH)
def test_nothing_is_read_through_a_link(linked: LocalStore, path: str) -> None:
    with pytest.raises(NotFound):
        linked.get(path)
    with pytest.raises(NotFound):
        linked.get_range(path, 0, 1)
    with pytest.raises(NotFound):
        linked.head(path)


def test_links_are_not_listed(linked: LocalStore) -> None:
    assert names(linked) == ["a/b/c"]
    for prefix in ("folder/", "a/folder/", "a/folder/deep/", "a/inside/", "a/loop/", "a/fi"):
        assert list(linked.list(prefix)) == [], prefix


@pytest.mark.parametrize("path", THROUGH)
def test_nothing_is_deleted_through_a_link(linked: LocalStore, outside: Path, path: str) -> None:
    before = tree(outside)
    linked.delete(path)
    assert tree(outside) == before
    assert linked.get("a/b/c").data == b"ours"


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("path", ["folder/new", "a/folder/deep/new", "a/folder/x/y/new"])
def test_nothing_is_written_through_a_link(
    linked: LocalStore, outside: Path, path: str, mode: Mode
) -> None:
    folders = sorted(outside.rglob("*"))
    with pytest.raises(Invalid, match="symbolic link"):
        linked.put(path, b"x", mode)
    assert sorted(outside.rglob("*")) == folders


def test_directory_that_becomes_a_link_is_not_followed(
    store: LocalStore, outside: Path, tmp_path: Path
) -> None:
    """The store has written there before, and remembers its directories."""
    store.put("a/b/c", b"ours")
    (tmp_path / "store/a").rename(tmp_path / "moved")
    (tmp_path / "store/a").symlink_to(outside)
    (outside / "b").mkdir()
    before = tree(outside)
    with pytest.raises(Invalid):
        store.put("a/b/d", b"x")
    with pytest.raises(NotFound):
        store.get("a/precious")
    store.delete("a/precious")
    assert tree(outside) == before


def test_overwrite_replaces_a_link_and_not_what_it_points_to(
    linked: LocalStore, outside: Path
) -> None:
    linked.put("a/file", b"ours now", Mode.OVERWRITE)
    assert linked.get("a/file").data == b"ours now"
    assert (outside / "precious").read_bytes() == b"precious"


def test_sweep_follows_no_link(linked: LocalStore, outside: Path) -> None:
    before = tree(outside)
    linked.sweep(timedelta(seconds=-1))
    assert tree(outside) == before
    assert (outside / "deep").is_dir()


def test_root_may_be_reached_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = LocalStore(tmp_path / "link")
    store.put("a/b", b"1")
    assert (store.get("a/b").data, names(store)) == (b"1", ["a/b"])


def test_sweep_of_a_workspace_touches_no_other(tmp_path: Path) -> None:
    below = LocalStore(tmp_path)
    for tenant in ("acme", "other"):
        ScopedStore(below, tenant, "dev").put("a/b", b"1")
        (tmp_path / tenant / "dev/a/.tmp-old").write_bytes(b"half")
        os.utime(tmp_path / tenant / "dev/a/.tmp-old", (0, 0))
    assert ScopedStore(below, "acme", "dev").sweep(timedelta(hours=1)) == 1
    assert files(below) == ["acme/dev/a/b", "other/dev/a/.tmp-old", "other/dev/a/b"]
    assert ScopedStore(below, "acme", "empty").sweep(timedelta(hours=1)) == 0


def test_gc_and_commits_touch_nothing_beyond_a_link(tmp_path: Path, outside: Path) -> None:
    clock = SimClock()
    w = make_workspace(DatedStore(LocalStore(tmp_path / "store"), clock), clock=clock)
    w.commands.catalog.create_namespace("sales")
    place = Path(w.store.url.removeprefix("file://"))
    (place / "state/changes/evil").symlink_to(outside)
    (place / "ledger/inbox/passwd.json").symlink_to(outside / "precious")
    (place / "ledger/inbox/loop").symlink_to(place / "ledger/inbox")
    before = tree(outside)
    w.commands.catalog.create_namespace("ops")
    clock.advance(timedelta(days=30))
    w.upkeep.gc(
        GenerationRetention(timedelta(days=1), timedelta(0), timedelta(0), at_least=1),
        dry_run=False,
    )
    assert tree(outside) == before
    assert list(w.store.list(paths.REJECTED)) == []
    assert w.upkeep.fsck().clean


def test_file_that_is_replaced_while_it_is_opened_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    store.put("a/x", b"bytes")
    places = iter([f"{tmp_path}/a/.nfs0001", f"{tmp_path}/a/.nfs0002"])
    real = localfiles.place_of
    monkeypatch.setattr(
        localfiles, "place_of", lambda fd, place: next(places, None) or real(fd, place)
    )
    assert store.get("a/x").data == b"bytes"
