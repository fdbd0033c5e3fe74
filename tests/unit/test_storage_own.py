"""Files of our own are put once, whatever the store answers."""

from __future__ import annotations

import pytest

from arco.errors import AlreadyExists, Corrupt, Unavailable
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode
from arco.storage.unique_objects import put_own
from tests.kit.clocks import SimClock


class Answering(MemoryStore):
    """Applies a put, or not, and then answers with an error."""

    def __init__(self, answer: Exception, *, applies: bool, times: int) -> None:
        super().__init__(SimClock())
        self._answer = answer
        self._applies = applies
        self._times = times

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        if self._times == 0:
            super().put(path, data, mode)
            return
        self._times -= 1
        if self._applies:
            super().put(path, data, mode)
        raise self._answer


@pytest.mark.parametrize("answer", [AlreadyExists("x exists"), Unavailable("no answer")])
def test_a_put_that_took_effect_counts_whatever_was_answered(answer: Exception) -> None:
    store = Answering(answer, applies=True, times=1)
    put_own(store, "x", b"ours")
    assert store.get("x").data == b"ours"


def test_a_put_that_did_not_arrive_is_repeated() -> None:
    store = Answering(Unavailable("no answer"), applies=False, times=2)
    put_own(store, "x", b"ours")
    assert store.get("x").data == b"ours"


def test_a_store_that_never_answers_is_unavailable() -> None:
    store = Answering(Unavailable("no answer"), applies=False, times=99)
    with pytest.raises(Unavailable):
        put_own(store, "x", b"ours")


def test_bytes_of_somebody_else_under_our_name_are_corruption() -> None:
    store = MemoryStore(SimClock())
    store.put("x", b"theirs")
    with pytest.raises(Corrupt):
        put_own(store, "x", b"ours")
