"""ULIDs: 128 bits that sort by the millisecond they were made in.

Text is 26 characters of Crockford's base32 (`0-9A-Z` without `I L O U`): 10 for
48 bits of milliseconds since 1970, 16 for 80 random bits, the most significant
first. The first character is at most `7`, for 26 characters could hold 130 bits.
One spelling only: lower case and the look-alikes that Crockford lets a reader
forgive are refused, since our ids are compared as text.

A ULID says roughly when it was made. It is *not* a position: between two
factories, order means nothing (TRAPS 1).
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from typing import Final

from servo.errors import Invalid

ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
MAX: Final = (1 << 128) - 1
MAX_MS: Final = (1 << 48) - 1

_TEXT = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_PAIRS = [a + b for a in ALPHABET for b in ALPHABET]
_TO_BASE32_OF_INT = str.maketrans(ALPHABET, "0123456789abcdefghijklmnopqrstuv")
_RANDOM_BYTES = 10
_RANDOM_MAX = (1 << 80) - 1
_LOW_BITS = 20
_LOW_MASK = (1 << _LOW_BITS) - 1


def encode(value: int) -> str:
    if not 0 <= value <= MAX:
        raise Invalid(f"{value} does not fit in a ULID", hint="a ULID holds 0 to 2^128-1")
    return _digits(value, 26)


def decode(text: str) -> int:
    return int(validate(text).translate(_TO_BASE32_OF_INT), 32)


def validate(text: str, what: str = "ULID") -> str:
    """The text itself, if it is the one spelling of a ULID; `what` names it in the error."""
    if not is_ulid(text):
        raise Invalid(
            f"{text!r} is not a valid {what}",
            hint="26 characters of 0-9A-Z without I, L, O, U; upper case; the first at most 7",
        )
    return text


def is_ulid(text: str) -> bool:
    return _TEXT.fullmatch(text) is not None


def timestamp_ms(text: str) -> int:
    """Milliseconds since 1970, as the factory that made this ULID saw them."""
    return decode(text) >> 80


class UlidFactory:
    """Makes ULIDs, each greater than the one before it, for any number of threads.

    In a new millisecond the random part is drawn afresh; in the same one, or
    when the clock stepped back, it is the last one plus one. Should that ever
    overflow, the next millisecond is borrowed: a call never fails and never
    waits. One factory must not live on both sides of a `fork()` (TRAPS 27).
    """

    __slots__ = ("_last_ms", "_lock", "_low", "_now_ms", "_prefix", "_random", "_random_bytes")

    def __init__(self, now_ms: Callable[[], int], random_bytes: Callable[[int], bytes]) -> None:
        self._now_ms = now_ms
        self._random_bytes = random_bytes
        self._lock = threading.Lock()
        self._last_ms = -(1 << 63)  # before what any clock says
        self._random = 0
        # The text is kept as 22 characters that rarely change plus 20 low bits,
        # so that the common call formats four characters and not 26.
        self._prefix = ""
        self._low = 0

    def __call__(self) -> str:
        with self._lock:
            now_ms = self._now_ms()
            if now_ms > self._last_ms:
                self._start(now_ms)
            elif self._low < _LOW_MASK:
                self._low += 1
            else:
                self._carry()
            low = self._low
            return self._prefix + _PAIRS[low >> 10] + _PAIRS[low & 1023]

    def _start(self, ms: int) -> None:
        if not 0 <= ms <= MAX_MS:
            raise Invalid(f"a ULID cannot hold the time {ms} ms", hint="check this machine's clock")
        self._set(ms, int.from_bytes(self._random_bytes(_RANDOM_BYTES), "big"))

    def _carry(self) -> None:
        random = (self._random | _LOW_MASK) + 1
        if random > _RANDOM_MAX:
            self._start(self._last_ms + 1)
        else:
            self._set(self._last_ms, random)

    def _set(self, ms: int, random: int) -> None:
        self._last_ms = ms
        self._random = random
        self._prefix = _digits((ms << 80 | random) >> _LOW_BITS, 22)
        self._low = random & _LOW_MASK


def system_ulids() -> UlidFactory:
    """A factory over this machine's clock and randomness, for the program's edge."""
    return UlidFactory(lambda: time.time_ns() // 1_000_000, os.urandom)


def _digits(value: int, width: int) -> str:
    """`value` in `width` (even) base32 digits, two at a time."""
    return "".join([_PAIRS[value >> shift & 1023] for shift in range(width * 5 - 10, -1, -10)])
