"""Artifacts: packed the same everywhere, and unpacked nowhere but in their folder."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from arco.errors import Corrupt, Invalid, NotFound
from arco.storage import paths
from arco.storage.local import LocalStore
from arco.storage.memory import MemoryStore
from arco.worker import artifact, packing
from arco.worker.artifact import LOCKS, ArtifactCache, digest, extract
from arco.worker.packing import PackedFile, large_files, likely_secrets, pack, packed_files
from tests.kit.clocks import SimClock


def fill(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def listed(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir() if entry.name != LOCKS)


def names(data: bytes) -> list[str]:
    return zipfile.ZipFile(io.BytesIO(data)).namelist()


def zipped(entries: dict[str, bytes], mode: int = stat.S_IFREG | 0o644) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = mode << 16
            archive.writestr(info, data)
    return buffer.getvalue()


def stored(data: bytes) -> tuple[MemoryStore, str]:
    store = MemoryStore(SimClock())
    store.put(paths.artifact(digest(data)), data)
    return store, digest(data)


def test_what_does_not_belong_in_an_artifact_is_left_out(tmp_path: Path) -> None:
    kept = {"a.py": "1", "pkg/__init__.py": "", "pkg/b.sql": "x"}
    left = {
        ".env": "SECRET",
        ".git/config": "",
        "pkg/__pycache__/b.pyc": "",
        "pkg/c.pyc": "",
        "env/pyvenv.cfg": "",
        "env/lib/x.py": "",
    }
    fill(tmp_path, kept | left)
    assert names(pack(tmp_path)) == sorted(kept)
    assert pack(tmp_path, [Path(name) for name in kept | left]) == pack(tmp_path)


def test_servoignore_has_the_syntax_of_gitignore(tmp_path: Path) -> None:
    kept = ["a.py", "docs/data/x.csv", "keep.csv", "pkg/top.txt", "seeds/a.csv"]
    left = ["data/x.csv", "data/keep.csv", "pkg/b.csv", "top.txt", "pkg/notes/deep/n.md"]
    fill(tmp_path, dict.fromkeys([*kept, *left], "x"))
    patterns = ["# no data", "/data/", "*.csv", "!keep.csv", "!seeds/*.csv", "/top.txt", "notes"]
    (tmp_path / ".servoignore").write_text("\n".join([*patterns, "!docs/data/x.csv"]))
    assert names(pack(tmp_path)) == kept
    assert pack(tmp_path, [Path(name) for name in [*kept, *left]]) == pack(tmp_path)


def test_what_is_packed_is_listed_with_what_is_large_or_looks_secret(tmp_path: Path) -> None:
    secrets = ["conf/credentials.json", "db.pem", "prod.env", "secrets.toml"]
    plain = ["data.csv", "keys.py", "pkg/secrets.py"]
    fill(tmp_path, dict.fromkeys([*secrets, *plain], "x") | {"data.csv": "x" * (2 << 20)})
    files = packed_files(pack(tmp_path))
    assert [file.path for file in files] == sorted([*secrets, *plain])
    assert large_files(files) == [PackedFile("data.csv", 2 << 20)]
    assert [file.path for file in likely_secrets(files)] == secrets


def test_the_bytes_are_pinned(tmp_path: Path) -> None:
    fill(tmp_path, {"b.py": "b = 2\n", "a.py": "a = 1\n"})
    expected = "43d47273cca47487e012e8c76416326cf920452b22a53e8703a5fac015c2bf97"
    assert digest(pack(tmp_path)) == expected


def test_too_much_source_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, {"a.py": "x" * 2000})
    monkeypatch.setattr(packing, "MAX_BYTES", 1000)
    with pytest.raises(Invalid, match=r"keep data out .* \.servoignore"):
        pack(tmp_path)


def test_files_outside_of_the_project_are_refused(tmp_path: Path) -> None:
    fill(tmp_path, {"secret.txt": "x", "project/a.py": ""})
    with pytest.raises(Invalid):
        pack(tmp_path / "project", [Path("../secret.txt")])
    (tmp_path / "project" / "link.txt").symlink_to(tmp_path / "secret.txt")
    with pytest.raises(Invalid):
        pack(tmp_path / "project")


def test_a_packed_project_unpacks_as_it_was(tmp_path: Path) -> None:
    files = {"a.py": "1", "pkg/__init__.py": "", "pkg/é.txt": "ü"}
    store, name = stored(pack(fill(tmp_path / "project", files)))
    folder = ArtifactCache(store, tmp_path / "cache").folder(name)
    assert {f: (folder / f).read_text() for f in files} == files
    assert listed(tmp_path / "cache") == [name]


def test_an_artifact_is_fetched_once(tmp_path: Path) -> None:
    store, name = stored(zipped({"a.py": b"1"}))
    cache = ArtifactCache(store, tmp_path)
    folder = cache.folder(name)
    store.delete(paths.artifact(name))
    assert cache.folder(name) == folder == ArtifactCache(store, tmp_path).folder(name)


def test_many_threads_and_caches_share_one_folder(tmp_path: Path) -> None:
    store, name = stored(zipped({f"m{i}.py": b"x" * 100 for i in range(50)}))
    caches = [ArtifactCache(store, tmp_path) for _ in range(4)]
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda c=cache: found.append(len(listed(c.folder(name)))))
        for cache in caches * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [50] * 16
    assert listed(tmp_path) == [name]


def test_many_processes_share_one_folder(tmp_path: Path) -> None:
    data = zipped({f"m{i}.py": b"x" * 100 for i in range(30)})
    LocalStore(tmp_path / "store").put(paths.artifact(digest(data)), data)
    script = f"""
from pathlib import Path
from arco.storage.local import LocalStore
from arco.worker.artifact import ArtifactCache
root = Path({str(tmp_path)!r})
folder = ArtifactCache(LocalStore(root / "store"), root / "cache").folder({digest(data)!r})
print(len(list(folder.iterdir())))
"""
    command = [sys.executable, "-c", script]
    crew = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in crew] == ["30\n"] * 3
    assert listed(tmp_path / "cache") == [digest(data)]


def test_wrong_bytes_are_corrupt_and_leave_nothing(tmp_path: Path) -> None:
    store = MemoryStore(SimClock())
    name = "a" * 64
    store.put(paths.artifact(name), zipped({"a.py": b""}))
    with pytest.raises(Corrupt, match=name):
        ArtifactCache(store, tmp_path).folder(name)
    assert listed(tmp_path) == []


def test_an_absent_artifact_is_not_found_and_a_bad_name_invalid(tmp_path: Path) -> None:
    cache = ArtifactCache(MemoryStore(SimClock()), tmp_path)
    with pytest.raises(NotFound):
        cache.folder("b" * 64)
    with pytest.raises(Invalid):
        cache.folder("../../etc")


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "a/../../x", "a//x", "./x", "C:/x", "a\\..\\x", "..", "a/./b"]
)
def test_a_name_that_leads_out_is_refused_before_anything_is_written(
    name: str, tmp_path: Path
) -> None:
    data = zipped({"good.py": b"", name: b"evil"})
    with pytest.raises(Invalid):
        extract(data, tmp_path)
    assert listed(tmp_path) == []


def test_a_symlink_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="regular file"):
        extract(zipped({"a": b"/etc/passwd"}, stat.S_IFLNK | 0o777), tmp_path)


def test_what_is_no_zip_or_clashes_or_explodes_is_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Invalid):
        extract(b"not a zip", tmp_path / "1")
    with pytest.raises(Invalid):
        extract(zipped({"a": b"", "a/b": b""}), tmp_path / "2")
    monkeypatch.setattr(artifact, "MAX_BYTES", 1000)
    with pytest.raises(Invalid, match="unpacks to more"):
        extract(zipped({"a": b"x" * 2000}), tmp_path / "3")


# -- a bounded number ----------------------------------------------------------------------


def deployments(count: int) -> tuple[MemoryStore, list[str]]:
    store = MemoryStore(SimClock())
    names = []
    for number in range(count):
        data = zipped({"a.py": str(number).encode()})
        names.append(digest(data))
        store.put(paths.artifact(names[-1]), data)
    return store, names


def test_hundred_artifacts_leave_a_bounded_number_of_folders_and_locks(tmp_path: Path) -> None:
    store, names = deployments(100)
    cache = ArtifactCache(store, tmp_path, keep=5)
    for name in names:
        with cache.using(name):
            assert (cache.folder(name) / "a.py").exists()
    assert len(listed(tmp_path)) <= 6
    assert names[-1] in listed(tmp_path)
    assert len(cache.ready) <= 5 and len(list((tmp_path / LOCKS).iterdir())) <= 6
    assert (cache.folder(names[0]) / "a.py").read_text() == "0"  # fetched again


def test_folder_that_is_in_use_stays(tmp_path: Path) -> None:
    store, names = deployments(30)
    cache, other = ArtifactCache(store, tmp_path, keep=2), ArtifactCache(store, tmp_path, keep=2)
    elsewhere = other.folder(names[1])
    with cache.using(names[0]):
        here = cache.folder(names[0])
        for name in names[2:]:
            with cache.using(name):
                cache.folder(name)
        assert (here / "a.py").exists()
    assert (elsewhere / "a.py").exists()  # of a cache that counts on it, as in another process
    assert len(listed(tmp_path)) <= 2 + 2 + 1


def test_folders_of_earlier_processes_go_too(tmp_path: Path) -> None:
    store, names = deployments(12)
    for name in names[:10]:
        earlier = ArtifactCache(store, tmp_path, keep=100)
        earlier.folder(name)
        for _, lock in earlier.ready.values():
            os.close(lock)  # as when its process ends
    assert len(listed(tmp_path)) == 10
    ArtifactCache(store, tmp_path, keep=3).folder(names[10])
    assert len(listed(tmp_path)) == 3


def test_folder_is_used_where_no_lock_can_be_made(tmp_path: Path) -> None:
    store, names = deployments(1)
    folder = ArtifactCache(store, tmp_path).folder(names[0])
    shutil.rmtree(tmp_path / LOCKS)
    (tmp_path / LOCKS).write_text("no folder")
    cache = ArtifactCache(store, tmp_path)
    with cache.using(names[0]):
        assert cache.folder(names[0]) == folder
