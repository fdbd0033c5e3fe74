from __future__ import annotations

import itertools
import threading

import pytest

from servo.contract import ulid
from servo.contract.ulid import UlidFactory, system_ulids
from servo.errors import Invalid


def zeros(n: int) -> bytes:
    return bytes(n)


@pytest.mark.parametrize("value", [-1, 1 << 128])
def test_values_beyond_128_bits_are_refused(value: int) -> None:
    with pytest.raises(Invalid):
        ulid.encode(value)


def test_validate_names_what_was_expected() -> None:
    with pytest.raises(Invalid, match="'nope' is not a valid run id"):
        ulid.validate("nope", "run id")


@pytest.mark.parametrize("ms", [-5, ulid.MAX_MS + 1])
def test_a_clock_outside_48_bits_is_refused(ms: int) -> None:
    with pytest.raises(Invalid, match="clock"):
        UlidFactory(lambda: ms, zeros)()


def test_ids_rise_while_the_clock_wanders() -> None:
    clock = itertools.cycle([5, 9, 1, 9, 10, 3])
    make = UlidFactory(lambda: next(clock), lambda n: b"\xff" * n)
    made = [make() for _ in range(200)]
    assert made == sorted(set(made))


def test_after_an_overflow_the_clock_catches_up_without_going_backwards() -> None:
    clock = iter([7, 7, 7, 8, 9])
    make = UlidFactory(lambda: next(clock), lambda n: b"\xff" * n)
    made = [make() for _ in range(5)]
    assert made == sorted(set(made))
    assert [ulid.timestamp_ms(u) for u in made] == [7, 8, 9, 10, 11]


def test_randomness_is_drawn_once_a_millisecond() -> None:
    drawn: list[int] = []
    clock = iter([1, 1, 1, 2, 2])
    make = UlidFactory(lambda: next(clock), lambda n: drawn.append(n) or bytes(n))  # type: ignore[func-returns-value]
    for _ in range(5):
        make()
    assert drawn == [10, 10]


def test_threads_never_share_an_id_and_each_sees_them_rise() -> None:
    make = system_ulids()
    made: list[list[str]] = [[] for _ in range(4)]

    def work(mine: list[str]) -> None:
        mine.extend(make() for _ in range(3000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in made)
    assert len(set().union(*made)) == 12_000


def test_system_ulids_are_ulids_of_now() -> None:
    import time

    before = time.time_ns() // 1_000_000
    assert before <= ulid.timestamp_ms(system_ulids()()) <= time.time_ns() // 1_000_000
