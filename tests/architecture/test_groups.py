"""Tests that share a Spark, a server or the machine run on one worker of pytest-xdist."""

from __future__ import annotations

import pytest


@pytest.mark.xdist_group("together")
def test_groups_have_an_effect(request: pytest.FixtureRequest) -> None:
    grouped = request.config.getoption("loadgroup", False)
    assert request.node.nodeid.endswith("@together") is grouped
