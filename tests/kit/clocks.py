"""Time that moves only when a test moves it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random

from tests.kit.stores import ManualClock


class SimClock(ManualClock):
    """A manual clock that can also play a machine that was suspended."""

    def advance(self, by: timedelta) -> None:
        self.sleep(by.total_seconds())

    def suspend(self, by: timedelta) -> None:
        """The wall clock goes on; the monotonic one stood still, as on a sleeping machine."""
        self._start += by
        self._now += by


class SkewedClock:
    """The clock of one machine: the true time, an offset, and a drift.

    `drift` is seconds gained in each true second. A jump moves the wall clock only,
    as a correction by an administrator or a wrong time server does.
    """

    def __init__(
        self, truth: SimClock, *, offset: timedelta = timedelta(0), drift: float = 0.0
    ) -> None:
        self._truth = truth
        self._since = truth.now()
        self._offset = offset
        self._drift = drift

    @property
    def error(self) -> timedelta:
        """How far ahead of the true time it is."""
        return self._offset + (self._truth.now() - self._since) * self._drift

    def now(self) -> datetime:
        return self._truth.now() + self.error

    def monotonic(self) -> float:
        return self._truth.monotonic() * (1 + self._drift)

    def sleep(self, seconds: float) -> None:
        self._truth.sleep(seconds)

    def jump(self, by: timedelta) -> None:
        self._offset += by

    def set(self, error: timedelta) -> None:
        """Be ahead of the true time by `error` from now on, but for the drift."""
        self._since = self._truth.now()
        self._offset = error


class Machines:
    """A skewed clock for each process of a simulation, by the process's name.

    `errors` are those that a clock may have; each starts with one of them. `disturb`
    is a step for `Scheduler.disturb`: it has one of the clocks jump to another error,
    or, half of the time, back to one of the first `sane` errors.
    """

    def __init__(
        self,
        truth: SimClock,
        rng: Random,
        errors: Sequence[timedelta],
        *,
        sane: int = 1,
        drift: float = 0.0,
    ) -> None:
        self._truth = truth
        self._rng = rng
        self._errors = errors
        self._sane = sane
        self._drift = drift
        self._clocks: dict[str, SkewedClock] = {}

    def clock(self, name: str) -> SkewedClock:
        if name not in self._clocks:
            drift = self._rng.uniform(-self._drift, self._drift)
            error = self._rng.choice(self._errors)
            self._clocks[name] = SkewedClock(self._truth, offset=error, drift=drift)
        return self._clocks[name]

    def disturb(self, rng: Random) -> str:
        """One clock jumps; what happened, for the trace."""
        if not self._clocks:
            return ""
        name = rng.choice(sorted(self._clocks))
        errors = self._errors[: self._sane] if rng.random() < 0.5 else self._errors
        error = rng.choice(errors)
        self._clocks[name].set(error)
        return f"{name} is {error.total_seconds():+.0f} s off"

    def correct(self) -> None:
        """All clocks are right from now on."""
        for clock in self._clocks.values():
            clock.set(timedelta(0))
