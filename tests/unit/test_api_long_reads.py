"""A read that takes longer than a request is waited for by the requests that follow."""

from __future__ import annotations

import threading

import pytest

from arco.api.long_reads import AT_ONCE, LongRead
from arco.api.problems import ApiError
from arco.errors import Unavailable


def test_who_asks_again_waits_for_the_same_read() -> None:
    ready = threading.Event()
    begun: list[str] = []
    reading: LongRead[str] = LongRead()

    def read() -> str:
        begun.append("read")
        ready.wait(60)
        return "report"

    for _ in range(3):
        with pytest.raises(ApiError) as caught:
            reading.result(read, wait_s=0.01)
        assert caught.value.code == "still_reading"
    ready.set()
    assert reading.result(read, wait_s=60) == "report"
    assert reading.result(read, wait_s=60) == "report"
    assert begun == ["read"]


def test_a_read_that_failed_is_begun_again() -> None:
    answers = iter([Unavailable("the store does not answer"), "report"])
    reading: LongRead[object] = LongRead()

    def read() -> object:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(Unavailable):
        reading.result(read, wait_s=60)
    assert reading.result(read, wait_s=60) == "report"


def test_long_reads_are_bounded_in_number() -> None:
    ready = threading.Event()
    many: list[LongRead[bool]] = [LongRead() for _ in range(AT_ONCE + 1)]
    codes = []
    for reading in many:
        with pytest.raises(ApiError) as caught:
            reading.result(lambda: ready.wait(60), wait_s=0.01)
        codes.append(caught.value.code)
    ready.set()
    assert codes == ["still_reading"] * AT_ONCE + ["busy"]
    for reading in many[:AT_ONCE]:
        assert reading.result(lambda: False, wait_s=60)
