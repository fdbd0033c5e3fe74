from __future__ import annotations

import posixpath
import random
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arco.errors import Corrupt, Invalid, NotFound
from arco.storage.local import LocalStore
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode
from arco.storage.scoped import ScopedStore
from tests.kit.faulty import FaultyStore
from tests.kit.stores import ManualClock

HOSTILE = [
    "..", "../x", "a/../../x", "a/..", "/etc/passwd", "//x", "a//b", "./a", ".", "a/./b", "a/",
    "..\\x", "a\\..\\b", "a\0b", "a\nb", "a\rb", "a\x7fb", "a\x85b",
    "%2e%2e/x", "%2E%2e", "a/%2e%2e/b", "a/.%2e/b", "a/%2e/b", "..%2fx", "a%2Fb", "a%5cb", "a%5Cb",
    "a%00b", "%252e%252e/x", "a%252fb", "a%25252Fb", "a%c0%afb", "a%e0%80%afb", "a%", "a%2", "a%zz",
    "a%u002fb", "%2e", "%2e%2e%2e", "",
]  # fmt: skip
PIECES = st.sampled_from(
    ["..", ".", "/", "\\", "%2f", "%2F", "%5c", "%2e", "%25", "%00", "\0", "a", "acme", "dev", "~",
     "%20", "é", "other", "\n", "%"]
)  # fmt: skip
PATHS = st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=20)


class Recorder(FaultyStore):
    """Notes every path that reaches the store below."""

    def __init__(self) -> None:
        super().__init__(MemoryStore(ManualClock()), random.Random(0))


@pytest.mark.parametrize("path", HOSTILE)
def test_hostile_path_reaches_no_store(path: str) -> None:
    below = Recorder()
    store = ScopedStore(below, "acme", "dev")
    with pytest.raises(Invalid):
        store.get(path)
    with pytest.raises(Invalid):
        store.put(path, b"", Mode.OVERWRITE)
    with pytest.raises(Invalid):
        store.delete(path)
    assert below.calls == []


@pytest.mark.parametrize(
    "prefix", ["..", "../", "a/../", "/", "a//", "%2e%2e/", "a%2f", "a\\", "%2e"]
)
def test_hostile_prefix_reaches_no_store(prefix: str) -> None:
    below = Recorder()
    store = ScopedStore(below, "acme", "dev")
    with pytest.raises(Invalid):
        store.list(prefix)
    with pytest.raises(Invalid):
        store.list("", prefix)
    assert below.calls == []


@given(PATHS)
@example("..%2F..%2Fother")
@example("%25%32%66")
def test_no_path_leaves_the_workspace_however_it_is_decoded(path: str) -> None:
    below = Recorder()
    store = ScopedStore(below, "acme", "dev")
    try:
        store.delete(path)
        list(store.list(path))
    except Invalid:
        pass
    for _, reached in below.calls:
        for _ in range(4):
            assert posixpath.normpath(reached + "x").startswith("acme/dev/")
            assert "\\" not in reached
            assert "\0" not in reached
            reached = unquote(reached)


@given(st.text(min_size=1, max_size=30))
def test_encoded_text_is_accepted_unless_it_hides_a_separator(value: str) -> None:
    try:
        encoded = quote(value, safe="")
    except UnicodeEncodeError:
        return
    store = ScopedStore(MemoryStore(ManualClock()), "acme", "dev")
    if len(encoded) > 200 or set(value) & set("/\\\0%") or not value.strip("."):
        return
    store.put(f"data/region=s:{encoded}/part", b"x")
    assert [meta.path for meta in store.list("")] == [f"data/region=s:{encoded}/part"]


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "A", "a b", "-a", "_a", "a.b", "a\n", "é", "a%2f", "a" * 64, "a\0"],
)
def test_hostile_tenant_or_workspace_is_refused(name: str) -> None:
    below = MemoryStore(ManualClock())
    with pytest.raises(Invalid):
        ScopedStore(below, name, "dev")
    with pytest.raises(Invalid):
        ScopedStore(below, "acme", name)


def test_workspaces_do_not_see_each_other(tmp_path: Path) -> None:
    below = LocalStore(tmp_path)
    dev, dev2 = ScopedStore(below, "acme", "dev"), ScopedStore(below, "acme", "dev2")
    dev.put("a", b"dev")
    dev2.put("b", b"dev2")
    assert [meta.path for meta in dev.list("")] == ["a"]
    assert [meta.path for meta in below.list("")] == ["acme/dev/a", "acme/dev2/b"]
    with pytest.raises(NotFound):
        dev.get("b")


def test_url_names_the_workspace(tmp_path: Path) -> None:
    store = ScopedStore(LocalStore(tmp_path), "acme", "dev")
    store.put("a/b", b"x")
    assert Path(f"{store.url}/a/b".removeprefix("file://")).read_bytes() == b"x"


def test_answer_from_outside_is_corrupt() -> None:
    class Leaky(MemoryStore):
        def list(self, prefix, start_after=None):  # type: ignore[no-untyped-def]
            return super().list("")

    below = Leaky(ManualClock())
    below.put("other/dev/secret", b"")
    with pytest.raises(Corrupt):
        list(ScopedStore(below, "acme", "dev").list(""))
