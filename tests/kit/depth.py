"""How far tests look: some seconds and seeds in `make test`, many in `make test-deep`.

The tests are the same ones; numbers differ. `ARCO_TEST_DEEP=1` chooses the larger ones. Single
numbers can be set besides: `ARCO_STRESS_SECONDS`, `ARCO_SIMULATION_SEEDS`, `ARCO_KILL_SEED`,
`ARCO_ORACLE_SEED`.
"""

from __future__ import annotations

import os
import random
import zlib
from collections.abc import Sequence
from typing import Final, TypeVar

import pytest

DEEP: Final = os.environ.get("ARCO_TEST_DEEP", "") not in ("", "0")

STRESS_S: Final = float(os.environ.get("ARCO_STRESS_SECONDS", "60" if DEEP else "2"))
"""How long a crowd of processes works on one store."""

KILL_SEED: Final = int(os.environ.get("ARCO_KILL_SEED", random.randrange(10**6)))
"""Which process is killed when. The instants are the operating system's."""

ORACLE_SEED: Final = int(os.environ.get("ARCO_ORACLE_SEED", "1"))
"""Which cases of lineage the oracle is asked about, where it is not asked about all."""

T = TypeVar("T")

deep_only = pytest.mark.skipif(not DEEP, reason="a second form of another test: make test-deep")


def scaled(quick: int, deep: int) -> int:
    return deep if DEEP else quick


def sampled(of: Sequence[T], quick: int) -> Sequence[T]:
    """One in `quick` of them, from one that `KILL_SEED` selects on; all in `make test-deep`."""
    return of if DEEP else of[KILL_SEED % quick :: quick]


def rotated(of: Sequence[T], quick: int) -> Sequence[T]:
    """One in `quick` of them, others in another run of pytest; all in `make test-deep`.

    For parameters of tests: all processes of a run must have the same ones.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", "")
    return of if DEEP else of[zlib.crc32(run.encode()) % quick :: quick]


def seeds(quick: int, deep: int) -> range:
    """Seeds of simulations."""
    return range(int(os.environ.get("ARCO_SIMULATION_SEEDS", scaled(quick, deep))))


def examples(usual: int) -> int:
    """Examples of a property: half as many in `make test`, ten times as many when looking deep."""
    return scaled(max(10, usual // 2), 10 * usual)
