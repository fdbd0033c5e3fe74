"""The commit marker of a task's output, and its metadata."""

from __future__ import annotations

import pytest

from arco.errors import AlreadyExists, Corrupt, Unavailable
from arco.storage import paths
from arco.storage.memory import MemoryStore
from arco.storage.port import Mode
from arco.worker.commit import commit_output, committed
from arco.worker.output import Written, materialization, metadata_of
from arco.worker.secrets import Redactor
from servo.contract.task import OutputCommit
from tests.kit.clocks import SimClock
from tests.unit.test_transport_task_envelope import make_request


def store() -> MemoryStore:
    return MemoryStore(SimClock())


class Answering(MemoryStore):
    """Applies a put of a marker, or not, and then answers with an error, `times` times."""

    def __init__(self, answer: Exception, *, applies: bool, times: int) -> None:
        super().__init__(SimClock())
        self._answer, self._applies, self._times = answer, applies, times

    def put(self, path: str, data: bytes, mode: Mode = Mode.CREATE) -> None:
        if self._times == 0:
            return super().put(path, data, mode)
        self._times -= 1
        if self._applies:
            super().put(path, data, mode)
        raise self._answer


def made(id: str) -> OutputCommit:
    output = materialization(make_request(), id, Written(rows=1), {"note": 1})
    return OutputCommit(materialization=output)


@pytest.mark.parametrize("answer", [AlreadyExists("x"), Unavailable("x")])
def test_a_commit_whose_answer_was_lost_is_ours(answer: Exception) -> None:
    target = Answering(answer, applies=True, times=1)
    assert commit_output(target, make_request(), made("m1")) == (made("m1"), False)


def test_a_commit_that_did_not_arrive_is_repeated_for_a_while() -> None:
    target = Answering(Unavailable("x"), applies=False, times=2)
    assert commit_output(target, make_request(), made("m1")) == (made("m1"), False)
    with pytest.raises(Unavailable):
        commit_output(
            Answering(Unavailable("x"), applies=False, times=99), make_request(), made("m1")
        )


def test_a_loser_adopts_the_winner() -> None:
    target = store()
    commit_output(target, make_request(), made("m1"))
    assert commit_output(target, make_request(), made("m2")) == (made("m1"), True)
    assert committed(target, make_request()) == made("m1")


def test_tasks_do_not_see_each_others_commits() -> None:
    target = store()
    commit_output(target, make_request(), made("m1"))
    assert committed(target, make_request(run_id="r2")) is None
    path = paths.output_commit("r2", "t1")
    target.put(path, target.get(paths.output_commit("r1", "t1")).data)
    with pytest.raises(Corrupt):
        committed(target, make_request(run_id="r2"))


def test_a_marker_that_cannot_be_read_is_corrupt_and_not_absent() -> None:
    target = store()
    target.put(paths.output_commit("r1", "t1"), b"{")
    with pytest.raises(Corrupt):
        committed(target, make_request())


def test_metadata_is_scalar_and_redacted() -> None:
    given = {"f": 0.5, "big": 1 << 70, "s": "hunter2", "l": [1]}
    found = metadata_of(given, Redactor(["hunter2"]))
    assert found == {"f": "0.5", "big": str(1 << 70), "s": "***", "l": "[1]"}
