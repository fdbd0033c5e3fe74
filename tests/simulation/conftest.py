"""Runs that were triggered, and that nothing has worked on yet."""

from __future__ import annotations

import pytest

from tests.kit.simulated_run import (
    World,
    make_world,
)


@pytest.fixture(scope="module")
def city() -> World:
    return make_world()


@pytest.fixture(scope="module")
def one() -> World:
    """A run of one task."""
    return make_world("city.alone")
