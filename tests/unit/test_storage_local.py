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
from arco.storage.local import LocalStore
from arco.storage.port import Mode

WRITER = """
import sys
from arco.storage.local import LocalStore
from arco.storage.port import Mode
store = LocalStore(sys.argv[1])
store._nameless = sys.argv[2] == "nameless"
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
    made._nameless = request.param == "nameless"
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
