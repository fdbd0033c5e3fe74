from __future__ import annotations

import json

import pytest

from arco.errors import Corrupt, Unavailable
from arco.storage.memory import MemoryStore
from arco.storage.port import Object
from arco.storage.seal import read_checked, seal, unseal
from tests.kit.stores import ManualClock

RAW = seal(b'{"a":1}')


class Flaky(MemoryStore):
    """Answers the first reads with something else."""

    def __init__(self, *answers: bytes) -> None:
        super().__init__(ManualClock())
        self.put("x", RAW)
        self.answers = list(answers)
        self.reads = 0

    def get(self, path: str) -> Object:
        entry = super().get(path)
        self.reads += 1
        return entry._replace(data=self.answers.pop(0)) if self.answers else entry


def parse(raw: bytes) -> object:
    return json.loads(unseal(raw, "x"))


def test_sealed_object_is_json_with_its_checksum_last() -> None:
    assert list(json.loads(RAW)) == ["a", "sha256"]
    assert unseal(RAW, "x") == b'{"a":1}'


@pytest.mark.parametrize("raw", [b"", b"{}", b'{"a":1}', RAW[:-1], RAW[1:], b"<html>502</html>"])
def test_what_is_not_sealed_is_corrupt_and_named(raw: bytes) -> None:
    with pytest.raises(Corrupt, match=r"x\b.*checksum"):
        unseal(raw, "x")


@pytest.mark.parametrize("bad", [b"", RAW[: len(RAW) // 2], b"<html>502</html>"])
def test_one_bad_read_is_repeated(bad: bytes) -> None:
    store = Flaky(bad)
    assert read_checked(store, "x", parse) == {"a": 1}
    assert store.reads == 2


def test_two_different_bad_reads_say_nothing_about_the_object() -> None:
    with pytest.raises(Unavailable, match="two reads of x"):
        read_checked(Flaky(b"", b"{"), "x", parse)


def test_two_equal_bad_reads_are_the_object() -> None:
    with pytest.raises(Corrupt):
        read_checked(Flaky(b"{", b"{"), "x", parse)
