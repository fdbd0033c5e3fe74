"""Packing depends on names and bytes alone; unpacking never leaves its folder."""

from __future__ import annotations

import contextlib
import io
import os
import random
import tempfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arco.errors import Invalid
from arco.worker.artifact import extract
from arco.worker.packing import pack
from tests.kit.depth import examples

segments = st.text("abcxyz_é", min_size=1, max_size=6)
trees = st.dictionaries(
    st.lists(segments, min_size=1, max_size=3).map(lambda parts: "/".join(parts) + ".py"),
    st.binary(max_size=64),
    max_size=8,
)
hostile = st.text("a./\\:\x00~C", min_size=1, max_size=8) | st.lists(
    st.sampled_from(["..", ".", "", "a", "b", "/"]), min_size=1, max_size=5
).map("/".join)


def build(root: Path, tree: dict[str, bytes], seed: int) -> Path:
    """The same files, made in another order, at another time and with other modes."""
    rng = random.Random(seed)
    names = list(tree)
    rng.shuffle(names)
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(tree[name])
        path.chmod(rng.choice([0o600, 0o644, 0o755]))
        os.utime(path, (rng.randrange(1 << 31), rng.randrange(1 << 31)))
    return root


@settings(max_examples=examples(60))
@given(trees, st.integers(), st.integers())
def test_a_pack_is_the_same_whatever_made_it(tree: dict[str, bytes], a: int, b: int) -> None:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        first = pack(build(Path(one), tree, a))
        files = [Path(name) for name in tree]
        random.Random(b).shuffle(files)
        assert pack(build(Path(two), tree, b), files) == first
        with tempfile.TemporaryDirectory() as three:
            extract(first, Path(three))
            assert {name: (Path(three) / name).read_bytes() for name in tree} == tree


@pytest.mark.filterwarnings("ignore:Duplicate name")
@settings(max_examples=examples(70))
@given(st.lists(hostile, min_size=1, max_size=4))
def test_no_name_writes_outside_of_the_folder(names: list[str]) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            info = zipfile.ZipInfo("placeholder")
            info.filename = info.orig_filename = name
            archive.writestr(info, b"evil")
    with tempfile.TemporaryDirectory() as outer:
        folder = Path(outer) / "deep" / "inside"
        folder.mkdir(parents=True)
        with contextlib.suppress(Invalid):
            extract(buffer.getvalue(), folder)
        found = [path for path in Path(outer).rglob("*") if path.is_file()]
        assert all(path.resolve().is_relative_to(folder.resolve()) for path in found)
